package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aliquot/rules/source"
)

// condition requires that one attribute has one of the listed values. A request without the
// attribute has the empty value. Of an endpoint only the path is compared, without query and
// fragment.
type condition struct {
	attribute string
	values    []matcher
	// orNone: a request without a tier is accepted too. It is set only for a rule's own tier.
	orNone bool
	// at is the condition's place in the file, for messages.
	at source.Position
}

// matcher is one value that a condition accepts: a pattern, or a regular expression that matches a
// part of the value.
type matcher struct {
	pattern
	regex *regexp.Regexp // if set, the pattern has only the prefix
}

func (m *matcher) match(value string) bool {
	if m.regex != nil {
		return m.regex.MatchString(value)
	}
	return m.pattern.match(value)
}

// isExact reports whether only one value is accepted.
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

// String returns the condition for people: method "POST" or "P*".
func (c *condition) String() string {
	texts := make([]string, 0, len(c.values))
	for i := range c.values {
		m := &c.values[i]
		switch {
		case m.regex != nil:
			texts = append(texts, "regex "+strconv.Quote(source.Shorten(m.regex.String())))
		case m.text == "":
			texts = append(texts, "(absent or empty)")
		default:
			texts = append(texts, strconv.Quote(source.Shorten(m.text)))
		}
	}
	return c.attribute + " " + strings.Join(texts, " or ")
}

// unmet returns the first of the conditions that a request does not meet, or nil if it meets all of
// them.
func unmet(conditions []condition, s *subject) *condition {
	for i := range conditions {
		c := &conditions[i]
		if !c.match(s.value(c.attribute)) {
			return c
		}
	}
	return nil
}

// asksAllOf reports whether every request to which r applies also meets the conditions of other. It
// finds only the plain case: r states all of those conditions word for word.
func (r *Rule) asksAllOf(other *Rule) bool { return implies(r.conditions, other.conditions) }

// implies reports whether a request that meets all of the conditions also meets all of others. It
// finds only the plain case.
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
