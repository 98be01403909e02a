package rules

// Assign gives every rule of s a number. A rule keeps its number in prev while its id stays and its
// algorithm, unit and placement are those in prevSet. A new number goes to a new id, to one that
// returns after it was gone, and to a rule with another algorithm, unit or placement. New numbers
// count up from next in the order of the file. They are never used again, so that what is stored
// under a number never means another rule.
//
// A nil prevSet means that no rule has changed. The result has only the rules of s; nextNumber is
// the next free number. Equal arguments give equal results. Assign panics when it runs out of
// numbers, because numbers from zero again would merge the state of unrelated rules.
func Assign(prev map[string]uint32, prevSet *Set, next uint32, s *Set) (numbers map[string]uint32, nextNumber uint32) {
	numbers = make(map[string]uint32, len(s.rules))
	for _, r := range s.rules {
		number, known := prev[r.ID]
		if known && sameKind(prevSet, r) {
			numbers[r.ID] = number
			continue
		}
		numbers[r.ID] = next
		if next++; next == 0 {
			panic("rules: rule numbers are used up")
		}
	}
	return numbers, next
}

func sameKind(prevSet *Set, r *Rule) bool {
	if prevSet == nil {
		return true
	}
	before := prevSet.Rule(r.ID)
	return before != nil && before.Algorithm == r.Algorithm && before.Unit == r.Unit && before.Placement == r.Placement
}
