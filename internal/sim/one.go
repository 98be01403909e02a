package sim

import (
	"fmt"
	"slices"

	"aliquot/internal/sim/faults"
)

// One runs the one world of a seed and returns the first promise that was broken in it, as it
// happened and not shortened; nil if none was.
func One(seed uint64, opts Options) *Violation {
	w := live(seed, opts, worldSpan-recovery)
	if w.failure != nil {
		w.failure.Trace = w.lines()
	}
	return w.failure
}

// Force returns o with kinds of faults, by their names, that every world has besides those that
// its seed draws.
func (o Options) Force(names ...string) (Options, error) {
	o.faults = slices.Clone(o.faults)
	for _, name := range names {
		kind, ok := faults.Named(name)
		if !ok {
			return o, fmt.Errorf("sim: no fault is called %q", name)
		}
		o.faults = append(o.faults, kind)
	}
	return o, nil
}

// Confine returns o with these kinds of faults in every world, and no others.
func (o Options) Confine(names ...string) (Options, error) {
	o.confined = true
	return o.Force(names...)
}
