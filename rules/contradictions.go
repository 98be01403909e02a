package rules

import (
	"strings"

	"aliquot/rules/source"
)

// contradictions reports conditions that plainly no request can meet. The rule would never apply,
// and the requests that it should limit would not be limited.
func (d *decoder) contradictions(at source.Position, what string, conditions []condition) {
	for i := range conditions {
		c := &conditions[i]
		if c.attribute == endpointAttribute && !c.acceptsPath() {
			d.Add(c.at, "%s can never apply: an endpoint is compared without its query, so nothing matches %s; cut it off at the ? or #", what, c)
		}
		for j := range i {
			if other := &conditions[j]; other.attribute == c.attribute && !c.compatible(other) {
				d.Add(at, "%s can never apply: it asks for %s and for %s; remove one", what, other, c)
			}
		}
	}
}

// acceptsPath reports whether one of the values can be a path without a query.
func (c *condition) acceptsPath() bool {
	for i := range c.values {
		m := &c.values[i]
		// In a glob, ? stands for any character.
		if m.regex != nil || m.isExact() && !strings.ContainsAny(m.text, "?#") || m.glob && !strings.Contains(m.text, "#") {
			return true
		}
	}
	return false
}

// compatible reports whether a value may meet both of two conditions on one attribute. It may
// return true although no value does.
func (c *condition) compatible(other *condition) bool {
	if c.orNone && other.match("") || other.orNone && c.match("") {
		return true
	}
	for i := range c.values {
		for j := range other.values {
			if c.values[i].compatible(&other.values[j]) {
				return true
			}
		}
	}
	return false
}

func (m *matcher) compatible(other *matcher) bool {
	switch {
	case m.isExact():
		return other.match(m.text)
	case other.isExact():
		return m.match(other.text)
	}
	return strings.HasPrefix(m.prefix, other.prefix) || strings.HasPrefix(other.prefix, m.prefix)
}
