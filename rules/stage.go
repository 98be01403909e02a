package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Unstageable returns why staged cannot be in force in some regions while base is in force in the
// others. It returns one sentence for each rule and each such change, in the order of base, or nil
// if nothing prevents it.
//
// Regions divide the limit of one record among them. A rule with another algorithm, unit, placement
// or key counts on other records, so a client would have the whole limit twice: in the staged
// regions and in the others. A rule that is left out limits nothing in the staged regions. Any
// other change keeps the records: the regions' parts then sum to the larger of the two limits at
// most.
func Unstageable(base, staged *Set) []string {
	var out []string
	for _, before := range base.rules {
		after := staged.Rule(before.ID)
		if after == nil {
			out = append(out, fmt.Sprintf("rule %q is left out: while this is staged it would limit nothing in the staged regions; "+
				"apply this everywhere at once, without a stage, or stage the rule with shadow: true first", before.ID))
			continue
		}
		for _, c := range recordChanges(before, after) {
			out = append(out, fmt.Sprintf("rule %q changes its %s: while this is staged it would hold two limits, each in a part of the regions; "+
				"apply this everywhere at once, without a stage, or add the changed rule under a new id beside this one", before.ID, c))
		}
	}
	return out
}

// Restarts returns a warning for each change between two versions after which a rule counts on new
// records, in the order of before. A nil before has no rules.
func Restarts(before, after *Set) []string {
	var out []string
	if before == nil {
		return nil
	}
	for _, was := range before.rules {
		is := after.Rule(was.ID)
		if is == nil {
			continue
		}
		for _, c := range recordChanges(was, is) {
			out = append(out, fmt.Sprintf("rule %q changes its %s: its clients begin with full buckets, and such a change cannot be staged", was.ID, c))
		}
	}
	return out
}

// recordChanges describes the changes between two versions of one rule after which it counts on
// other records, with both values.
func recordChanges(before, after *Rule) (out []string) {
	change := func(what, from, to string) {
		if from != to {
			out = append(out, fmt.Sprintf("%s (%s to %s)", what, from, to))
		}
	}
	change("algorithm", before.Algorithm, after.Algorithm)
	change("unit", before.Unit, after.Unit)
	change("placement", before.Placement, after.Placement)
	if !slices.Equal(before.sortedKey, after.sortedKey) {
		change("key", keyText(before), keyText(after))
	}
	return out
}

func keyText(r *Rule) string { return "[" + strings.Join(r.Key, ", ") + "]" }
