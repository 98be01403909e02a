package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxRenamed caps the warnings about rules that may have been renamed, and maxNamed the new rules that each names.
// Longer lists would not be read.
const (
	maxRenamed = 10
	maxNamed   = 3
)

// Renamed returns a warning for each rule of before that after does not have, while after has a new one that
// counts the same thing for the same key: it may be the same rule under another id, which is a new limit.
// A nil before has no rules.
func Renamed(before, after *Set) (out []string) {
	if before == nil {
		return nil
	}
	type counts struct{ key, unit string }
	what := func(r *Rule) counts {
		return counts{strings.Join(r.sortedKey, "\x00"), r.Unit}
	}
	added := map[counts][]string{}
	for _, r := range after.rules {
		if before.Rule(r.ID) == nil {
			added[what(r)] = append(added[what(r)], strconv.Quote(r.ID))
		}
	}
	for _, r := range before.rules {
		ids := added[what(r)]
		if after.Rule(r.ID) != nil || len(ids) == 0 {
			continue
		}
		if len(out) == maxRenamed {
			return append(out, fmt.Sprintf("more than %d rules are gone while others are new: each new one starts afresh", maxRenamed))
		}
		verb := "are"
		if len(ids) == 1 {
			verb = "is"
		} else if len(ids) > maxNamed {
			ids = append(slices.Clone(ids[:maxNamed]), "others")
		}
		out = append(out, fmt.Sprintf("rule %q is gone, and %s %s new: a renamed rule is a new limit, so its clients start afresh and what they have used "+
			"is forgotten; keep the id of a limit that stays", r.ID, strings.Join(ids, ", "), verb))
	}
	return out
}
