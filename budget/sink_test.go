package budget

import (
	"testing"
	"time"
)

// TestARegionThatCannotGrowTakesNothing: a region whose store knows nothing of a counting limit says that everything
// may be in use, so its share cannot grow before a tail has passed. Its refusals must not take the shares of the others
// meanwhile: nobody could use them.
func TestARegionThatCannotGrowTakesNothing(t *testing.T) {
	for _, placement := range []Placement{PlacementAuto, PlacementSplit} {
		w := newWorld(t, 4)
		w.limit = KeyLimit{Capacity: 200 * microToken, Rate: 20_000_000, Tail: 20 * time.Second, Placement: placement}
		w.rights = &rights{used: make([][]Instant, 4), lostBy: make([]Instant, 4)}
		w.elect()
		w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
		w.rights.lostBy[3] = w.now.Add(20 * time.Second)
		w.load, w.every = []int64{1, 1, 1, 1}, 25 // two a second in each region: far below the limit
		refused := 0
		for end := w.now.Add(20 * time.Second); w.now < end; {
			w.run(tick)
			for i := range 3 {
				if w.capOf(i) <= w.inUse(i) {
					refused++
				}
			}
		}
		if most := 3 * int(time.Second/tick); refused > most { // until the region's first report about the key
			t.Errorf("placement %d: the three regions with a store would refuse for %v in all", placement, time.Duration(refused)*tick)
		}
	}
}
