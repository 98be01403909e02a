package rules

import (
	"slices"
	"time"

	"aliquot/limit"
	"aliquot/rules/pattern"
)

// With returns the set under entries: a copy in which their blocks and allows have precedence over
// the lists of the file, and their numbers over those of its rules. An entry without effect on s is
// ignored; see Effect. Entries of s itself are not kept. s is not changed.
func (s *Set) With(entries []Entry) *Set {
	file := s.asInFile()
	if len(entries) == 0 {
		return file
	}
	out := *file
	out.file = file
	tiers, overrides := make(map[string]*Entry), make(map[string][]*Entry)
	var blocks, allows []ListEntry
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case BlockEntry:
			blocks = append(blocks, ListEntry{Pattern: e.Name, Note: e.Note})
		case AllowEntry:
			allows = append(allows, ListEntry{Pattern: e.Name, Note: e.Note})
		case TierEntry:
			tiers[e.Name] = e
		case OverrideEntry:
			overrides[e.Rule] = append(overrides[e.Rule], e)
		}
	}
	out.blocks, out.allows = newEntryList(blocks), newEntryList(allows)
	if len(tiers)+len(overrides) == 0 {
		return &out
	}
	out.rules, out.byID = slices.Clone(file.rules), make(map[string]*Rule, len(file.rules))
	for i, r := range out.rules {
		if e := tiers[r.Tier]; e != nil {
			if under, why := r.under(e); why == "" {
				r = under
			}
		}
		out.rules[i] = r.withOverrides(overrides[r.ID])
		out.byID[r.ID] = out.rules[i]
	}
	return &out
}

// asInFile returns the set without entries.
func (s *Set) asInFile() *Set {
	if s.file != nil {
		return s.file
	}
	return s
}

// withOverrides returns the rule with entries before the overrides of the file.
func (r *Rule) withOverrides(entries []*Entry) *Rule {
	if len(entries) == 0 {
		return r
	}
	added := make([]Override, 0, len(entries)+len(r.overrides))
	for _, e := range entries {
		if l, window, why := e.overrideOf(r); why == "" {
			added = append(added, Override{Pattern: e.Name, Limit: l, Window: window, Entry: e})
		}
	}
	slices.SortStableFunc(added, func(a, b Override) int { return pattern.Compare(pattern.OfKey(a.Pattern), pattern.OfKey(b.Pattern)) })
	changed := *r
	changed.overrides = append(added, r.overrides...)
	changed.setPatterns()
	return &changed
}

// overrideOf returns the limit that an override entry gives API keys under a rule, or the reason
// why it gives none.
func (e *Entry) overrideOf(r *Rule) (l limit.Limit, window time.Duration, why string) {
	p, why := e.Read()
	if why != "" {
		return l, 0, why
	}
	return p.Over(r.params).LimitFor(r.Algorithm)
}

// setPatterns indexes the rule's overrides.
func (r *Rule) setPatterns() {
	r.patterns, r.wildcards = pattern.NewSet(heldBy(r.overrides)), wildcardsOf(r.overrides)
}

// heldBy returns the patterns of overrides.
func heldBy(overrides []Override) []pattern.Expiring {
	out := make([]pattern.Expiring, len(overrides))
	for i := range overrides {
		out[i] = pattern.Expiring{Pattern: pattern.OfKey(overrides[i].Pattern), UntilMS: overrides[i].UntilMS}
	}
	return out
}
