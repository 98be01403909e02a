package check

import (
	"fmt"

	"aliquot/budget"
)

const (
	// recoverIn is the number of quanta within which every region is live again; a lease has three.
	// growIn is the number after that within which the single busy region has everything.
	recoverIn = 30
	growIn    = 24
)

// Recovers ends every fault, and returns what does not recover: every region must become live, and
// a region that alone wants the key must get it. The world cannot be used afterwards.
func (w *world) Recovers() (broken string) {
	defer func() {
		if p := recover(); p != nil {
			broken = fmt.Sprintf("panic on the way to recovery: %v", p)
		}
	}()
	for i := range w.sc.Regions {
		s := w.site(i)
		s.cutUp, s.cutDown = false, false
		for len(s.nodes) > 1 {
			s.nodes = s.nodes[1:] // the later one stays
		}
		s.nodes[0].cut, s.nodes[0].applyFault = false, storeFine
	}
	if w.leads == nil {
		w.elect()
	}
	w.settle()
	live := func() bool {
		for i := range w.sc.Regions {
			if n := w.sites[i].nodes[0]; n.machine.Phase(n.now(w)) != budget.Live {
				return false
			}
		}
		return w.old == nil
	}
	w.until("recovery", w.sc.all(), recoverIn*w.sc.Quantum, live)
	w.until("growth after recovery", 0, growIn*w.sc.Quantum+2*w.sc.Limit.Tail(), func() bool {
		return w.calm() && w.hasAll(0)
	})
	return w.broken
}
