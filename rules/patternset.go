package rules

// held is a pattern that applies until an instant, in Unix milliseconds; 0 means without end.
type held struct {
	pattern
	untilMS int64
}

func (h *held) holds(nowMS int64) bool { return h.untilMS == 0 || nowMS < h.untilMS }

// patternSet finds the first of many patterns that matches a text. It is immutable once built. The
// zero value matches nothing.
type patternSet struct {
	patterns []held
	exact    map[string]int32
	globs    prefixTable
}

// newPatternSet indexes patterns. Of equal texts the one that applies longest counts.
func newPatternSet(patterns []held) patternSet {
	s := patternSet{patterns: patterns, exact: make(map[string]int32)}
	for i := range patterns {
		p := &patterns[i]
		if p.glob {
			s.globs.add(p.prefix, int32(i))
			continue
		}
		if before, twice := s.exact[p.text]; !twice || patterns[before].endsBefore(p) {
			s.exact[p.text] = int32(i)
		}
	}
	return s
}

func (h *held) endsBefore(other *held) bool {
	return h.untilMS != 0 && (other.untilMS == 0 || h.untilMS < other.untilMS)
}

// first returns the lowest ordinal of a pattern that applies at nowMS and matches, or -1. If
// several patterns name a text exactly, only one of them counts.
func (s *patternSet) first(text string, nowMS int64) int {
	best := int32(len(s.patterns))
	if i, ok := s.exact[text]; ok && s.patterns[i].holds(nowMS) {
		best = i
	}
	for _, n := range s.globs.lengths {
		if n > len(text) {
			break
		}
		for _, i := range s.globs.under[text[:n]] {
			if i >= best {
				break
			}
			if p := &s.patterns[i]; p.holds(nowMS) && p.match(text) {
				best = i
			}
		}
	}
	if int(best) == len(s.patterns) {
		return -1
	}
	return int(best)
}

// accessList is the whitelist or the blacklist. The zero value lists no key.
type accessList struct {
	entries []ListEntry
	set     patternSet
}

func newAccessList(entries []ListEntry) accessList {
	patterns := make([]held, len(entries))
	for i := range entries {
		patterns[i] = held{keyPattern(entries[i].Pattern), entries[i].UntilMS}
	}
	return accessList{entries: entries, set: newPatternSet(patterns)}
}

// lists returns the entry by which an API key is on the list, or nil.
func (l *accessList) lists(apiKey string, nowMS int64) *ListEntry {
	if i := l.set.first(apiKey, nowMS); i >= 0 {
		return &l.entries[i]
	}
	return nil
}
