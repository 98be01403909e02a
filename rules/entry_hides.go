package rules

import (
	"fmt"
	"slices"
	"strings"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// maxHides caps the warnings about entries. A longer list would not be read.
const maxHides = 50

// Hides returns a warning for each entry that has precedence over something that a file changes, in
// the order of entries. after is the file, and before the rules in force, nil if there are none.
// Entries without precedence over a change are left out.
func Hides(entries []Entry, before, after *Set) []string {
	if before == nil || len(entries) == 0 {
		return nil
	}
	c := changesOf(before.asInFile(), after.asInFile())
	under := after.With(entries)
	var out []string
	more := 0
	for i := range entries {
		e := &entries[i]
		warning := c.hiddenBy(e, under)
		switch {
		case warning == "":
		case len(out) == maxHides:
			more++
		default:
			out = append(out, warning+"; `aliquot entries remove "+e.command()+"` ends that")
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d other entries stand above what the file changes; see `aliquot entries list`", more))
	}
	return out
}

// command returns the id as arguments of a shell command.
func (id EntryID) command() string {
	words := string(id.Kind) + " "
	if id.Rule != "" {
		words += id.Rule + " "
	}
	if !strings.ContainsFunc(id.Name, func(r rune) bool { return !document.IsIDRune(r) }) {
		return words + id.Name
	}
	return words + "'" + strings.ReplaceAll(id.Name, "'", `'\''`) + "'"
}

// fileChanges are the differences between two files over which entries can have precedence.
type fileChanges struct {
	before, after *Set
	// listed are the patterns that are on a list of only one of the files, or on different lists.
	listed []string
	// rules are those with other numbers. overrides are the patterns whose overrides differ, by
	// rule.
	rules     map[string]bool
	overrides map[string][]string
}

func changesOf(before, after *Set) *fileChanges {
	c := &fileChanges{before: before, after: after, rules: map[string]bool{}, overrides: map[string][]string{}}
	for _, lists := range [][2][]ListEntry{{before.Blacklist(), after.Blacklist()}, {before.Whitelist(), after.Whitelist()}} {
		c.listed = append(c.listed, differing(lists[0], lists[1])...)
	}
	for _, r := range after.rules {
		was := before.Rule(r.ID)
		c.rules[r.ID] = was == nil || was.Limit != r.Limit
		c.overrides[r.ID] = overridesChanged(was, r)
	}
	return c
}

// differing returns the patterns that are on only one of two lists.
func differing(a, b []ListEntry) (out []string) {
	on := map[string]int{}
	for i := range a {
		on[a[i].Pattern] |= 1
	}
	for i := range b {
		on[b[i].Pattern] |= 2
	}
	for pattern, which := range on {
		if which != 3 {
			out = append(out, pattern)
		}
	}
	slices.Sort(out)
	return out
}

// overridesChanged returns the patterns whose numbers the file changes. was may be nil.
func overridesChanged(was, is *Rule) (out []string) {
	limits := map[string]Override{}
	if was != nil {
		for _, o := range was.overrides {
			limits[o.Pattern] = o
		}
	}
	for _, o := range is.overrides {
		if before, known := limits[o.Pattern]; !known || before.Limit != o.Limit {
			out = append(out, o.Pattern)
		}
		delete(limits, o.Pattern)
	}
	for pattern := range limits {
		out = append(out, pattern)
	}
	slices.Sort(out)
	return out
}

// hiddenBy returns a sentence about the changes that an entry hides, or "".
func (c *fileChanges) hiddenBy(e *Entry, under *Set) string {
	covers := func(patterns []string) (string, bool) {
		p := pattern.OfKey(e.Name)
		i := slices.IndexFunc(patterns, func(text string) bool { return text == e.Name || p.Match(text) || pattern.OfKey(text).Match(e.Name) })
		if i < 0 {
			return "", false
		}
		return patterns[i], true
	}
	switch e.Kind {
	case BlockEntry, AllowEntry:
		if pattern, is := covers(c.listed); is {
			return fmt.Sprintf("the file changes a list for %q; the entry %s stays above that", source.Shorten(pattern), e.EntryID)
		}
	case OverrideEntry:
		r := under.Rule(e.Rule)
		if r == nil || !slices.ContainsFunc(r.overrides, func(o Override) bool { return o.Entry != nil && o.Entry.EntryID == e.EntryID }) {
			return ""
		}
		if pattern, is := covers(c.overrides[e.Rule]); is {
			return fmt.Sprintf("the file changes the override %q of rule %s; the entry %s (%v) stays above that", source.Shorten(pattern), e.Rule, e.EntryID, e.ParamsText)
		}
		if c.rules[e.Rule] {
			return fmt.Sprintf("the file changes the limit of rule %s; the entry %s (%v) stays above that", e.Rule, e.EntryID, e.ParamsText)
		}
	case TierEntry:
		for _, r := range under.rules {
			if r.Tier == e.Name && r.SetForTier && c.rules[r.ID] {
				return fmt.Sprintf("rule %s keeps the value that was set for the tier %q (%v), above what the file states", r.ID, source.Shorten(e.Name), e.ParamsText)
			}
		}
	}
	return ""
}
