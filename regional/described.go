package regional

import (
	"encoding/binary"
	"slices"

	"aliquot/rules"
)

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
