package faults

import "aliquot/internal/sim/timeline"

// Set is the kinds of trouble that a world has, until a true time, and how often each was caused. It
// is not safe for concurrent use.
type Set struct {
	Kinds  [Count]bool
	Until  int64
	Caused [Count]int64

	line *timeline.Timeline
}

// NewSet returns a set of no kinds, on a timeline.
func NewSet(line *timeline.Timeline, until int64) Set { return Set{line: line, Until: until} }

// Over reports whether all trouble is over.
func (s *Set) Over() bool { return s.line.Now() >= s.Until }

// Has reports whether there is steady trouble of a kind now.
func (s *Set) Has(k Kind) bool { return s.Kinds[k] && !s.Over() }

// Strikes draws whether steady trouble hits a single message or command; the chance is one in once.
func (s *Set) Strikes(k Kind, once int) bool {
	if !s.Has(k) || !s.line.Chance(1, once) {
		return false
	}
	s.Caused[k]++
	return true
}
