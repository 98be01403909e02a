package charge

import (
	"encoding/binary"
	"slices"
	"time"

	"aliquot/limit"
	"aliquot/rules"
)

// Request is one validated request.
type Request struct {
	Attributes rules.Attributes
	Namespace  string
	Cost       limit.Tokens
	// Costs are what the request consumes of other units, in whole tokens.
	Costs rules.Costs
	Described
}

// Described is the part of a request that only a descriptor of Envoy's rate limit protocol has. The
// zero value belongs to a request that is no descriptor.
type Described struct {
	Descriptor bool
	// Without are the ids of rules that do not apply, because another descriptor of the same
	// request replaces them.
	Without []string
	// Own is the limit that the descriptor brings along, for rules that accept it. A window of 0
	// means none.
	Own OwnLimit
}

// OwnLimit allows that many requests in each window.
type OwnLimit struct {
	Requests int64
	Window   time.Duration
}

// CostOf returns how much the request consumes of the unit that a rule counts. It returns false if
// the request has no cost of that unit; then the rule does not apply.
func (r *Request) CostOf(rule *rules.Rule) (cost limit.Tokens, applies bool) {
	whole, applies := rule.Cost(int64(r.Cost/limit.Token), r.Costs)
	return limit.Tokens(whole) * limit.Token, applies
}

// applying filters the rules that match a request, in place, and returns those that apply to it with
// the limit that it brings. unlimited is true if none applies, because a rule says that the request
// has no limit.
func (r *Request) applying(matched []rules.Matched) (applying []rules.Matched, unlimited bool) {
	kept := matched[:0]
	for i := range matched {
		m := matched[i]
		switch {
		case r.Descriptor && !m.Rule.Addresses(r.Attributes), slices.Contains(r.Without, m.Rule.ID):
		case m.Unlimited && !r.Brings(m.Rule):
			unlimited = true
		default:
			if r.Brings(m.Rule) {
				m.Limit, _ = m.Rule.LimitOf(r.Own.Requests, r.Own.Window)
				m.Window, m.Override, m.Unlimited = r.Own.Window, nil, false
			}
			kept = append(kept, m)
		}
	}
	return kept, unlimited && len(kept) == 0
}

// Brings reports whether the request brings a limit that the rule accepts.
func (r *Request) Brings(rule *rules.Rule) bool {
	if r.Own.Window == 0 || !rule.RequestLimit {
		return false
	}
	_, why := rule.LimitOf(r.Own.Requests, r.Own.Window)
	return why == ""
}

// keyValues appends the values that name a rule's bucket for the request: rules.KeyValues, and the
// limit that the request brings. So each bucket has one limit, whatever other limits the client's
// requests bring.
func (r *Request) keyValues(rule *rules.Rule, dst []byte) []byte {
	dst = rules.KeyValues(rule, r.Attributes, dst)
	if r.Brings(rule) {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Own.Requests))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Own.Window))
	}
	return dst
}
