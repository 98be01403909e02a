package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"aliquot/internal/sim/faults"
)

// Violation is a broken promise.
type Violation struct {
	Seed  uint64        `json:"seed"`
	At    time.Duration `json:"at_ns"` // since the world began
	What  string        `json:"what"`
	Trace []string      `json:"trace,omitempty"` // the last events
	// Enough is the smallest trouble found with which the same seed still breaks a promise. Faults
	// describes its single faults, in order. Both are nil if nothing searched for it.
	Enough *faults.Selection `json:"enough,omitempty"`
	Faults []string          `json:"faults,omitempty"`
	// Of is how many single faults and kinds of steady trouble there were.
	Of int `json:"of,omitempty"`
}

// String says how to reproduce the violation, and what led to it.
func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, at %v: %s\n", v.Seed, v.At, v.What)
	if v.Enough != nil {
		fmt.Fprintf(&b, "enough of the trouble, %d of %d: %s\n", v.Enough.Len(), v.Of, strings.Join(slices.Concat(v.Faults, v.Enough.Steady), "; "))
		fmt.Fprintf(&b, "again: -seed %d -faults '%s'\n", v.Seed, v.Enough)
	}
	for _, line := range v.Trace {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// shorteningWorlds bounds the worlds that the search for the smallest trouble runs, to some ten
// seconds.
const shorteningWorlds = 250

// Shorten searches for the smallest trouble with which the world of a seed still breaks a promise,
// whichever that is. It leaves out ever smaller parts, as long as something breaks without them. It
// returns the violation that this trouble leads to; nil if the seed breaks nothing.
func Shorten(seed uint64, opts Options) *Violation {
	w := live(seed, opts, worldSpan-recovery)
	if w.failure == nil {
		return nil
	}
	all := w.troubleSoFar()
	s := shortener{opts: opts, seed: seed, best: w, enough: all}
	for parts := 2; s.enough.Len() > 0 && s.worlds < shorteningWorlds; {
		if s.dropPart(parts) {
			parts = max(parts-1, 2)
		} else if parts < s.enough.Len() {
			parts = min(2*parts, s.enough.Len())
		} else {
			break
		}
	}
	v := s.best.failure
	v.Trace, v.Enough, v.Of = s.best.lines(), s.enough, all.Len()
	for _, m := range s.best.mishaps {
		v.Faults = append(v.Faults, m.String())
	}
	return v
}

// shortener is the state of the search.
type shortener struct {
	seed   uint64
	opts   Options
	best   *world // with the least trouble so far
	enough *faults.Selection
	worlds int
}

// dropPart leaves out one of parts equal parts, and reports whether something still breaks.
func (s *shortener) dropPart(parts int) bool {
	n := s.enough.Len()
	parts = min(parts, n)
	// The latest trouble first: what comes before is the same in every try.
	for part := parts - 1; part >= 0 && s.worlds < shorteningWorlds; part-- {
		less := s.enough.Without(part*n/parts, (part+1)*n/parts)
		opts := s.opts
		opts.Only = less
		s.worlds++
		if w := live(s.seed, opts, worldSpan-recovery); w.failure != nil {
			s.best, s.enough = w, w.troubleSoFar()
			return true
		}
	}
	return false
}

// troubleSoFar returns the trouble that a world has had so far.
func (w *world) troubleSoFar() *faults.Selection {
	s := &faults.Selection{}
	for _, m := range w.mishaps {
		s.Faults = append(s.Faults, m.number)
	}
	for f := range faults.Single {
		if w.Faults.Kinds[f] {
			s.Steady = append(s.Steady, f.String())
		}
	}
	return s
}

// String describes what happened to which region.
func (m mishap) String() string {
	return fmt.Sprintf("fault %d at %v: %v (region %d)", m.number, duration(m.at), m.kind, m.region)
}
