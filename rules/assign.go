package rules

// Assign gives every rule of s a number. A rule keeps the number it has in prev
// while its id stays and its algorithm, unit and placement are those it has in
// prevSet; a new id, one that comes back after it was gone, or another algorithm, unit
// or placement gets a new number, from next upwards in the order of the file. Numbers
// are never used again, so that what is stored under one never means another rule.
//
// A nil prevSet means that none of them has changed. The result has the rules
// of s only; nextNumber is the next to pass on. Equal arguments give equal results.
// Running out of numbers panics: to begin again at zero would merge the state of
// unrelated rules.
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
