package check

import (
	"fmt"

	"aliquot/budget"
)

const (
	// recoverEvery is of how many new states one is made to recover. It also looks far
	// ahead from there.
	recoverEvery = 512
	// recoverIn is within how many quanta, of which a lease has three, everyone is live
	// again, and growIn after that the lone busy region has everything.
	recoverIn = 30
	growIn    = 24
)

// recovers lets every fault end, and says what does not come right: every region is
// live, and one that alone wants the key gets it. It uses the world up.
func (w *world) recovers() (broken string) {
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
		s.nodes[0].cut, s.nodes[0].wayward = false, storeFine
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
