package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Selection picks some of a world's trouble: single faults by their number in the order in which
// the world causes them, from 0, and kinds of steady trouble by their names. The zero value
// picks none.
type Selection struct {
	Faults []int
	Steady []string
}

// noFaults is the text of an empty selection.
const noFaults = "none"

// ParseSelection reads what Selection.String writes: numbers and names, separated by
// commas, or "none".
func ParseSelection(s string) (*Selection, error) {
	out := &Selection{}
	if s == noFaults {
		return out, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		if n, err := strconv.Atoi(item); err == nil && n >= 0 {
			out.Faults = append(out.Faults, n)
			continue
		}
		if f, ok := Named(item); !ok || !f.Steady() {
			return nil, fmt.Errorf("sim: %q is neither the number of a fault nor a kind of steady trouble (%s)", item, steadyNames())
		}
		out.Steady = append(out.Steady, item)
	}
	return out, nil
}

func steadyNames() string {
	var names []string
	for f := range Single {
		names = append(names, f.String())
	}
	return strings.Join(names, ", ")
}

// String returns the text that ParseSelection reads.
func (s *Selection) String() string {
	var items []string
	for _, n := range s.Faults {
		items = append(items, strconv.Itoa(n))
	}
	items = append(items, s.Steady...)
	if len(items) == 0 {
		return noFaults
	}
	return strings.Join(items, ",")
}

// Without returns s without its items from i up to but not including j, faults first.
func (s *Selection) Without(i, j int) *Selection {
	n := len(s.Faults)
	return &Selection{
		Faults: slices.Concat(s.Faults[:min(i, n)], s.Faults[min(j, n):]),
		Steady: slices.Concat(s.Steady[:max(i-n, 0)], s.Steady[max(j-n, 0):]),
	}
}

// Len returns how many faults and kinds are picked.
func (s *Selection) Len() int { return len(s.Faults) + len(s.Steady) }
