package pattern

// Expiring is a pattern that applies until an instant, in Unix milliseconds; 0 means without end.
type Expiring struct {
	Pattern
	UntilMS int64
}

func (e *Expiring) holds(nowMS int64) bool { return e.UntilMS == 0 || nowMS < e.UntilMS }

// Set finds the first of many patterns that matches a text. It is immutable once built. The zero
// value matches nothing.
type Set struct {
	patterns []Expiring
	exact    map[string]int32
	globs    Prefixes
}

// NewSet indexes patterns. Of equal texts the one that applies longest counts.
func NewSet(patterns []Expiring) Set {
	s := Set{patterns: patterns, exact: make(map[string]int32)}
	for i := range patterns {
		p := &patterns[i]
		if p.Glob {
			s.globs.Add(p.Prefix, int32(i))
			continue
		}
		if before, twice := s.exact[p.Text]; !twice || patterns[before].endsBefore(p) {
			s.exact[p.Text] = int32(i)
		}
	}
	return s
}

func (e *Expiring) endsBefore(other *Expiring) bool {
	return e.UntilMS != 0 && (other.UntilMS == 0 || e.UntilMS < other.UntilMS)
}

// First returns the lowest ordinal of a pattern that applies at nowMS and matches, or -1. If
// several patterns name a text exactly, only one of them counts.
func (s *Set) First(text string, nowMS int64) int {
	if len(s.patterns) == 0 {
		return -1
	}
	best := int32(len(s.patterns))
	if i, ok := s.exact[text]; ok && s.patterns[i].holds(nowMS) {
		best = i
	}
	for _, n := range s.globs.Lengths {
		if n > len(text) {
			break
		}
		for _, i := range s.globs.Under[text[:n]] {
			if i >= best {
				break
			}
			if p := &s.patterns[i]; p.holds(nowMS) && p.Match(text) {
				best = i
			}
		}
	}
	if int(best) == len(s.patterns) {
		return -1
	}
	return int(best)
}
