package rules

import (
	"math"
	"slices"
	"strings"
)

// unreached warns of rules that no request can reach, or none but those that name their
// tier: what they were to limit is free.
func (d *decoder) unreached(doc *document, s *Set) {
	tiers := slices.DeleteFunc(doc.sortedTiers(), func(name string) bool { return !doc.tiers[name].assigns() })
	for i, text := range doc.rules {
		if list, entry := s.listsAllOf(text.conditions); list != None {
			d.warn(text.at, "no request can reach %s: %q on the %s has all API keys that it asks for", text, shorten(entry.Pattern), strings.Replace(list.String(), "listed", "list", 1))
		}
		r := s.rules[i]
		if r.Tier == "" || doc.tiers[r.Tier] != nil && doc.tiers[r.Tier].assigns() {
			continue
		}
		if !text.conditions[0].orNone {
			d.warn(text.at, "only requests that name the tier %[1]q reach %[2]s: it asks for nothing else, and no match under tiers assigns requests to %[1]q; let callers send the attribute tier, or write tiers: {%[1]q: {match: {api_key_pattern: \"...\"}}}", shorten(r.Tier), text)
		} else if other := doc.assignsAllOf(tiers, text); other != "" {
			d.warn(text.at, "only requests that name the tier %[1]q reach %[2]s: all others that it asks for belong to the tier %[3]q, by its match; write one under tiers for %[1]q too", shorten(r.Tier), text, shorten(other))
		}
	}
}

// listsAllOf returns the list that has, for good, every API key that the conditions
// accept, and one of its entries; None where that is not plain.
func (s *Set) listsAllOf(conditions []condition) (ListKind, *ListEntry) {
	for i := range conditions {
		c := &conditions[i]
		if c.attribute != apiKeyAttribute {
			continue
		}
		for _, list := range []struct {
			kind ListKind
			of   *accessList
		}{{Blacklisted, &s.blacklist}, {Whitelisted, &s.whitelist}} {
			if entry := list.of.covers(c); entry != nil {
				return list.kind, entry
			}
		}
	}
	return None, nil
}

// covers returns an entry of a list that has, for good, every API key that a condition
// accepts; nil where that is not plain.
func (l *accessList) covers(c *condition) (entry *ListEntry) {
	for i := range c.values {
		m := &c.values[i]
		if m.regex != nil {
			return nil
		}
		// A pattern is a text to the list's patterns: their * stand for it, whatever it
		// stands for itself.
		entry = l.lists(m.text, math.MaxInt64)
		if entry == nil || m.glob && entry.Pattern != m.text && strings.Contains(entry.Pattern, "?") {
			return nil
		}
	}
	return entry
}

// assignsAllOf returns the first of the tiers that is not the rule's own and gets every
// request which meets the rule's conditions and names none; empty where that is not plain.
func (doc *document) assignsAllOf(tiers []string, text *ruleText) string {
	for _, name := range tiers {
		if name != text.tier && implies(text.conditions, doc.tiers[name].conditions) {
			return name
		}
	}
	return ""
}
