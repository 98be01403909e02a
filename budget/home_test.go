package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// small returns a world whose key is too small to be split over n regions.
func small(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.limit = KeyLimit{Capacity: 10 * microToken, Rate: 5 * microToken}
	w.elect()
	w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
	for i, r := range w.ledger.Config.Regions {
		w.bank[i] = Scale(w.limit.Capacity, r.Floor.Burst)
	}
	return w
}

func TestWhichLimitsHaveAHome(t *testing.T) {
	three := NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	joining := three.clone()
	joining.Regions = append(joining.Regions, RegionConfig{Name: "d", Weight: 1})
	for _, c := range []struct {
		config    Config
		requests  int64
		rate      int64 // requests a second
		placement Placement
		homed     bool
		counted   bool // the same for a counting limit
	}{
		{three, 29, 0, PlacementAuto, true, false},
		{three, 30, 0, PlacementAuto, false, false},
		{joining, 30, 0, PlacementAuto, false, false}, // a region without a floor divides nothing
		{three, 3, 0, PlacementAuto, true, false},
		{three, 2, 0, PlacementAuto, true, false}, // what is unused of a counting limit is lent
		{three, 29, 29, PlacementAuto, true, false},
		{three, 24, 120, PlacementAuto, false, false}, // a backend's limit: a small burst, used in all regions at once
		{three, 2, 0, PlacementSplit, false, false},
		{three, 1000, 0, PlacementHome, true, true},
	} {
		limit := KeyLimit{Capacity: c.requests * microToken, Rate: c.rate * microToken, Placement: c.placement}
		if counts := (KeyLimit{Capacity: limit.Capacity, Placement: c.placement, Tail: time.Minute}); c.config.Homed(counts) != c.counted {
			t.Errorf("%d requests a minute, placement %d: a home is %v", c.requests, c.placement, !c.counted)
		}
		if got := c.config.Homed(limit); got != c.homed {
			t.Errorf("%d requests, %d a second, over %d regions, placement %d: a home is %v", c.requests, c.rate, len(c.config.Regions), c.placement, got)
		}
	}
}

// A limit with a home is lent whole.
func TestConnectedFloorOfAHome(t *testing.T) {
	third := Share{Unit / 3, Unit / 3}
	for _, limit := range []KeyLimit{
		{Capacity: 29 * microToken},
		{Capacity: 1000 * microToken, Placement: PlacementHome},
	} {
		if k := ofThirds().ConnectedFloor(third, limit); k != (Share{}) {
			t.Errorf("%+v: %v is kept", limit, k)
		}
	}
	for _, limit := range []KeyLimit{
		{Capacity: 31 * microToken},
		{Capacity: 24 * microToken, Rate: 120 * microToken},
		{Capacity: 29 * microToken, Placement: PlacementSplit},
	} {
		if k := ofThirds().ConnectedFloor(third, limit); Scale(limit.Capacity, k.Burst) < microToken {
			t.Errorf("%+v: only %v is kept", limit, k)
		}
	}
}

// A limit is lent whole or kept from everywhere alike: where floors differ, a large floor of a limit with a home keeps
// nothing either. Otherwise two regions keep one request each of three, and what is left for the third is a little less
// than one.
func TestALargeFloorKeepsNothingOfAHome(t *testing.T) {
	c := NewConfig([]string{"a", "b", "c", "d"}, 10*time.Second, 20_000)
	limit := KeyLimit{Capacity: 3 * microToken, Rate: 33 * microToken}
	for i, part := range []int32{3, 1, 3, 1} {
		floor := Share{Rate: part * Unit / 8, Burst: part * Unit / 8}
		if k := c.ConnectedFloor(floor, limit); k != (Share{}) {
			t.Errorf("region %d keeps %v of a floor of %v, and the home is to have all", i, k, floor)
		}
	}
}

func TestASmallLimitGoesWholeToWhoUsesIt(t *testing.T) {
	w := small(t, 3)
	w.load[2] = 1
	w.runUntil("c holds all of it", time.Second, func() bool { return w.rate(2) == 1000 })
	w.load = []int64{1, 0, 0}
	w.runUntil("a holds all of it, once c is known to be idle", 4*time.Second, func() bool { return w.rate(0) == 1000 })
	if w.rate(1)+w.rate(2) != 0 {
		t.Errorf("b and c keep %d and %d per mille", w.rate(1), w.rate(2))
	}
}

// Three busy regions take turns. No turn is longer than the others' waits, and a flood does not
// Lengthen its own turn.
func TestHomesInTurns(t *testing.T) {
	w := small(t, 3)
	w.load = []int64{1000, 1, 1}
	w.runUntil("a region holds it", time.Second, func() bool { return w.rate(0)+w.rate(1)+w.rate(2) == 1000 })
	held := make([]time.Duration, 3)
	const turns = 12
	for range turns * int(BusyDwell/tick) {
		for i := range held {
			if w.rate(i) == 1000 {
				held[i] += tick
			}
		}
		w.run(tick)
	}
	for i, d := range held {
		if fair := turns * BusyDwell / 3; d < fair*9/10 || d > fair*11/10 {
			t.Errorf("region %d was home for %v of %v", i, d, turns*BusyDwell)
		}
	}
}

// A home whose clients are all admitted yields sooner than one that rejects, and gets its next turn
// as soon as it needs it.
func TestACalmHomeYieldsSoon(t *testing.T) {
	w := small(t, 2)
	w.limit = KeyLimit{Capacity: 19 * microToken, Rate: 10 * microToken}
	w.every, w.load = 25, []int64{1, 0} // 2 a second of 10
	w.bank[0] = microToken
	w.run(20 * time.Second)
	if w.rate(0) != 1000 {
		t.Fatalf("a holds %d per mille", w.rate(0))
	}
	w.load[1] = 50
	w.runUntil("b has a turn", calmDwell+500*time.Millisecond, func() bool { return w.rate(1) == 1000 })
	w.runUntil("and a again", BusyDwell+500*time.Millisecond, func() bool { return w.rate(0) == 1000 })
}

func TestASilentHomeIsReplaced(t *testing.T) {
	w := small(t, 3)
	w.load = []int64{1, 0, 0}
	w.runUntil("a holds all of it", time.Second, func() bool { return w.rate(0) == 1000 })
	w.cut[0], w.load[1] = true, 1
	w.runUntil("b holds all but the floor of a", 25*time.Second, func() bool { return w.rate(1) == 666 })
	w.cut[0], w.load[0] = false, 0
	w.runUntil("b holds all of it", 5*time.Second, func() bool { return w.rate(1) == 1000 })
}

func TestANewLeaderFindsTheHome(t *testing.T) {
	w := small(t, 3)
	w.load = []int64{0, 1, 0}
	w.runUntil("b holds all of it", time.Second, func() bool { return w.rate(1) == 1000 })
	w.elect()
	for range 500 {
		w.run(tick)
		if w.rate(1) != 1000 {
			t.Fatalf("b holds %d per mille under the new leader", w.rate(1))
		}
	}
}

func TestAHomedKeyCoolsDown(t *testing.T) {
	w := small(t, 3)
	w.load = []int64{0, 1, 0}
	w.runUntil("b holds all of it", time.Second, func() bool { return w.rate(1) == 1000 })
	w.load[1] = 0
	w.runUntil("the key is cold", 30*time.Second, func() bool { return w.ledger.Len() == 0 })
}

func TestHomedAllocationNeverExceedsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		home := rapid.IntRange(noHome, len(a.Regions)-1).Draw(t, "home")
		if home != noHome && !a.Regions[home].holds() {
			home = noHome
		}
		var sum, keep Share
		for i, s := range a.homed(home) {
			if s.Rate < 0 || s.Burst < 0 {
				t.Fatalf("negative share %v", s)
			}
			if !a.Regions[i].Silent {
				sum = sum.Add(s)
				keep = keep.Add(a.Regions[i].Keep)
			}
		}
		if !sum.Within(a.Avail.Max(keep)) {
			t.Fatalf("allocated %v of %v", sum, a.Avail)
		}
		if home != noHome && keep.Within(a.Avail) && sum != a.Avail {
			t.Fatalf("allocated %v of %v: nothing is to be left", sum, a.Avail)
		}
	})
}
