package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// condition asks for a value of one attribute: one of those listed. A request that
// does not carry the attribute has the empty value. Of an endpoint the path counts,
// without query and fragment.
type condition struct {
	attribute string
	values    []matcher
	// orNone also accepts a request that belongs to no tier; of a rule's tier alone.
	orNone bool
	// where the condition stands, for messages
	at position
}

// matcher is one value that a condition accepts: a pattern, or a regular expression
// that finds something in the value.
type matcher struct {
	pattern
	regex *regexp.Regexp // the pattern has only the prefix then
}

func (m *matcher) match(value string) bool {
	if m.regex != nil {
		return m.regex.MatchString(value)
	}
	return m.pattern.match(value)
}

// isExact tells whether one value only is accepted.
func (m *matcher) isExact() bool { return m.regex == nil && !m.glob }

func (c *condition) match(value string) bool {
	if c.orNone && value == "" {
		return true
	}
	for i := range c.values {
		if c.values[i].match(value) {
			return true
		}
	}
	return false
}

// String writes the condition for people: method "POST" or "P*".
func (c *condition) String() string {
	texts := make([]string, 0, len(c.values))
	for i := range c.values {
		m := &c.values[i]
		switch {
		case m.regex != nil:
			texts = append(texts, "regex "+strconv.Quote(shorten(m.regex.String())))
		case m.text == "":
			texts = append(texts, "(absent or empty)")
		default:
			texts = append(texts, strconv.Quote(shorten(m.text)))
		}
	}
	return c.attribute + " " + strings.Join(texts, " or ")
}

// unmet returns the first of the conditions that a request does not meet, nil if it
// meets all.
func unmet(conditions []condition, s *subject) *condition {
	for i := range conditions {
		c := &conditions[i]
		if !c.match(s.value(c.attribute)) {
			return c
		}
	}
	return nil
}

// asksAllOf tells whether every request that r applies to meets the conditions of
// other as well, where that is plain: r states all of them, word for word.
func (r *Rule) asksAllOf(other *Rule) bool { return implies(r.conditions, other.conditions) }

// implies tells whether what meets all of the conditions meets all of others too, where
// that is plain.
func implies(conditions, others []condition) bool {
	for i := range others {
		if !slices.ContainsFunc(conditions, others[i].impliedBy) {
			return false
		}
	}
	return true
}

func (c *condition) impliedBy(other condition) bool {
	return c.attribute == other.attribute && (c.orNone || !other.orNone) && slices.EqualFunc(c.values, other.values, func(a, b matcher) bool {
		if a.regex != nil || b.regex != nil {
			return a.regex != nil && b.regex != nil && a.regex.String() == b.regex.String()
		}
		return a.pattern == b.pattern
	})
}
