// Package pattern compares texts with the patterns of a rules file: exact texts, globs and regular
// expressions, one by one, as the conditions of a rule, or many at once.
package pattern

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aliquot/rules/source"
)

// Condition requires that one attribute has one of the listed values. A request without the
// attribute has the empty value. Of an endpoint only the path is compared, without query and
// fragment.
type Condition struct {
	Attribute string
	Values    []Matcher
	// OrNone: a request without a tier is accepted too. It is set only for a rule's own tier.
	OrNone bool
	// At is the condition's place in the file, for messages.
	At source.Position
}

// Matcher is one value that a condition accepts: a pattern, or a regular expression that matches a
// part of the value.
type Matcher struct {
	Pattern
	Regex *regexp.Regexp // if set, the pattern has only the prefix
}

// Match reports whether the value is accepted.
func (m *Matcher) Match(value string) bool {
	if m.Regex != nil {
		return m.Regex.MatchString(value)
	}
	return m.Pattern.Match(value)
}

// IsExact reports whether only one value is accepted.
func (m *Matcher) IsExact() bool { return m.Regex == nil && !m.Glob }

// Match reports whether one of the values accepts this one.
func (c *Condition) Match(value string) bool {
	if c.OrNone && value == "" {
		return true
	}
	for i := range c.Values {
		if c.Values[i].Match(value) {
			return true
		}
	}
	return false
}

// String returns the condition for people: method "POST" or "P*".
func (c *Condition) String() string {
	texts := make([]string, 0, len(c.Values))
	for i := range c.Values {
		m := &c.Values[i]
		switch {
		case m.Regex != nil:
			texts = append(texts, "regex "+strconv.Quote(source.Shorten(m.Regex.String())))
		case m.Text == "":
			texts = append(texts, "(absent or empty)")
		default:
			texts = append(texts, strconv.Quote(source.Shorten(m.Text)))
		}
	}
	return c.Attribute + " " + strings.Join(texts, " or ")
}

// Implies reports whether a request that meets all of the conditions also meets all of others. It
// finds only the plain case.
func Implies(conditions, others []Condition) bool {
	for i := range others {
		if !slices.ContainsFunc(conditions, others[i].impliedBy) {
			return false
		}
	}
	return true
}

func (c *Condition) impliedBy(other Condition) bool {
	return c.Attribute == other.Attribute && (c.OrNone || !other.OrNone) && slices.EqualFunc(c.Values, other.Values, func(a, b Matcher) bool {
		if a.Regex != nil || b.Regex != nil {
			return a.Regex != nil && b.Regex != nil && a.Regex.String() == b.Regex.String()
		}
		return a.Pattern == b.Pattern
	})
}

// AcceptsPath reports whether one of the values can be a path without a query.
func (c *Condition) AcceptsPath() bool {
	for i := range c.Values {
		m := &c.Values[i]
		// In a glob, ? stands for any character.
		if m.Regex != nil || m.IsExact() && !strings.ContainsAny(m.Text, "?#") || m.Glob && !strings.Contains(m.Text, "#") {
			return true
		}
	}
	return false
}

// Compatible reports whether a value may meet both of two conditions on one attribute. It may
// return true although no value does.
func (c *Condition) Compatible(other *Condition) bool {
	if c.OrNone && other.Match("") || other.OrNone && c.Match("") {
		return true
	}
	for i := range c.Values {
		for j := range other.Values {
			if c.Values[i].compatible(&other.Values[j]) {
				return true
			}
		}
	}
	return false
}

func (m *Matcher) compatible(other *Matcher) bool {
	switch {
	case m.IsExact():
		return other.Match(m.Text)
	case other.IsExact():
		return m.Match(other.Text)
	}
	return strings.HasPrefix(m.Prefix, other.Prefix) || strings.HasPrefix(other.Prefix, m.Prefix)
}
