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
	// where the condition stands, for messages
	at position
}

// matcher is one value that a condition accepts: a pattern, or a regular expression
// that finds something in the value.
type matcher struct {
	pattern
	regex *regexp.Regexp // the pattern has only the prefix then
}

func exactly(attribute, value string, at position) condition {
	return condition{attribute: attribute, values: []matcher{{pattern: newPattern(value, false)}}, at: at}
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

// valueOf is what a condition on an attribute looks at.
func valueOf(attrs Attributes, attribute, path string) string {
	if attribute == endpointAttribute {
		return path
	}
	return attrs.Get(attribute)
}

// unmet returns the first condition that a request does not meet, nil if it meets
// all. Path is the request's endpoint by pathOf.
func (r *Rule) unmet(attrs Attributes, path string) *condition {
	for i := range r.conditions {
		c := &r.conditions[i]
		if !c.match(valueOf(attrs, c.attribute, path)) {
			return c
		}
	}
	return nil
}

// asksAllOf tells whether every request that r applies to meets the conditions of
// other as well, where that is plain: r states all of them, word for word.
func (r *Rule) asksAllOf(other *Rule) bool {
	for i := range other.conditions {
		if !slices.ContainsFunc(r.conditions, other.conditions[i].equal) {
			return false
		}
	}
	return true
}

func (c *condition) equal(other condition) bool {
	return c.attribute == other.attribute && slices.EqualFunc(c.values, other.values, func(a, b matcher) bool {
		if a.regex != nil || b.regex != nil {
			return a.regex != nil && b.regex != nil && a.regex.String() == b.regex.String()
		}
		return a.pattern == b.pattern
	})
}
