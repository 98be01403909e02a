package rules

import (
	"slices"
	"strings"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// unreached warns about rules that no request can reach, or only requests that name the rule's
// tier. The requests that such a rule should limit are not limited.
func (d *draft) unreached(doc *document.Document, s *Set) {
	tiers := slices.DeleteFunc(doc.SortedTiers(), func(name string) bool { return !doc.Tiers[name].Assigns() })
	for i, text := range doc.Rules {
		if list, entry := s.listsAllOf(text.Conditions); list != None {
			d.Warn(text.At, "no request can reach %s: %q on the %s has all API keys that it asks for", text, source.Shorten(entry.Pattern), strings.Replace(list.String(), "listed", "list", 1))
		}
		r := s.rules[i]
		if r.Tier == "" || doc.Tiers[r.Tier] != nil && doc.Tiers[r.Tier].Assigns() {
			continue
		}
		if !text.Conditions[0].OrNone {
			d.Warn(text.At, "only requests that name the tier %[1]q reach %[2]s: it asks for nothing else, and no match under tiers assigns requests to %[1]q; let callers send the attribute tier, or write tiers: {%[1]q: {match: {api_key_pattern: \"...\"}}}", source.Shorten(r.Tier), text)
		} else if other := assignsAllOf(doc, tiers, text); other != "" {
			d.Warn(text.At, "only requests that name the tier %[1]q reach %[2]s: all others that it asks for belong to the tier %[3]q, by its match; write one under tiers for %[1]q too", source.Shorten(r.Tier), text, source.Shorten(other))
		}
	}
}

// listsAllOf returns the list that has, without end, every API key that the conditions accept, and
// one of its entries. It finds only the plain case; otherwise it returns None.
func (s *Set) listsAllOf(conditions []pattern.Condition) (ListKind, *ListEntry) {
	for i := range conditions {
		c := &conditions[i]
		if c.Attribute != document.APIKeyAttribute {
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

// assignsAllOf returns the first of the tiers, other than the rule's own, that gets every request
// which meets the rule's conditions and names no tier. It finds only the plain case; otherwise it
// returns "".
func assignsAllOf(doc *document.Document, tiers []string, text *document.Rule) string {
	for _, name := range tiers {
		if name != text.Tier && pattern.Implies(text.Conditions, doc.Tiers[name].Conditions) {
			return name
		}
	}
	return ""
}
