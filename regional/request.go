package regional

import (
	"encoding/binary"
	"slices"
	"time"

	"aliquot/limit"
	"aliquot/rules"
)

// request is one validated request.
type request struct {
	attributes rules.Attributes
	namespace  string
	cost       limit.Tokens
	// costs are what the request consumes of other units, in whole tokens.
	costs rules.Costs
	described
}

// described is the part of a request that only a descriptor of Envoy's rate limit protocol has. The
// zero value belongs to a request that is no descriptor.
type described struct {
	descriptor bool
	// without are the ids of rules that do not apply, because another descriptor of the same
	// request replaces them.
	without []string
	// own is the limit that the descriptor brings along, for rules that accept it. A window of 0
	// means none.
	own ownLimit
}

// ownLimit allows that many requests in each window.
type ownLimit struct {
	requests int64
	window   time.Duration
}

// costOf returns how much the request consumes of the unit that a rule counts. It returns false if
// the request has no cost of that unit; then the rule does not apply.
func (r *request) costOf(rule *rules.Rule) (cost limit.Tokens, applies bool) {
	whole, applies := rule.Cost(int64(r.cost/limit.Token), r.costs)
	return limit.Tokens(whole) * limit.Token, applies
}

// applying filters in place the rules that match a request, and returns those that apply to it
// under the limit that it brings. unlimited is true if none applies because a rule says that
// nothing limits the request.
func (r *request) applying(matched []rules.Matched) (applying []rules.Matched, unlimited bool) {
	kept := matched[:0]
	for i := range matched {
		m := matched[i]
		switch {
		case r.descriptor && !m.Rule.Addresses(r.attributes), slices.Contains(r.without, m.Rule.ID):
		case m.Unlimited && !r.brings(m.Rule):
			unlimited = true
		default:
			if r.brings(m.Rule) {
				m.Limit, _ = m.Rule.LimitOf(r.own.requests, r.own.window)
				m.Window, m.Override, m.Unlimited = r.own.window, nil, false
			}
			kept = append(kept, m)
		}
	}
	return kept, unlimited && len(kept) == 0
}

// brings reports whether the request brings a limit that the rule accepts.
func (r *request) brings(rule *rules.Rule) bool {
	if r.own.window == 0 || !rule.RequestLimit {
		return false
	}
	_, why := rule.LimitOf(r.own.requests, r.own.window)
	return why == ""
}

// keyValues appends the values that name a rule's bucket for the request: rules.KeyValues, and the
// limit that the request brings. So each bucket has one limit, whatever other limits the client's
// requests bring.
func (r *request) keyValues(rule *rules.Rule, dst []byte) []byte {
	dst = rules.KeyValues(rule, r.attributes, dst)
	if r.brings(rule) {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.own.requests))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.own.window))
	}
	return dst
}
