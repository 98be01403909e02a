package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawAllocation draws any input that a leader can meet: equal floors, any demand, some silent
// regions, limits from one request to a billion.
func drawAllocation(t *rapid.T) allocation {
	n := rapid.IntRange(1, 6).Draw(t, "regions")
	floors := Split(make([]int64, n))
	a := allocation{
		Capacity: rapid.Int64Range(1, 1_000_000_000).Draw(t, "capacity") * microToken,
		Rate:     rapid.Int64Range(0, 1_000_000_000).Draw(t, "rate") * microToken,
		Avail:    Share{Unit, Unit},
	}
	for i := range n {
		floor := Share{floors[i], floors[i]}
		c := claim{Floor: floor, Keep: ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: a.Capacity, Placement: PlacementSplit}), Now: floor}
		if rapid.Float64Range(0, 1).Draw(t, "silent") < 0.2 {
			c.Silent = true
			a.Avail = a.Avail.Sub(c.Now)
		} else {
			units := rapid.Int64Range(0, Unit)
			c.Demand = demandNow{
				Known: rapid.Bool().Draw(t, "known"), Rejecting: rapid.Bool().Draw(t, "rejecting"),
				Fast: units.Draw(t, "fast"), Slow: units.Draw(t, "slow"),
				FastAdmitted: units.Draw(t, "fastAdmitted"), SlowAdmitted: units.Draw(t, "slowAdmitted"),
			}
			c.Tokens = rapid.Int64Range(0, a.Capacity).Draw(t, "tokens")
		}
		a.Regions = append(a.Regions, c)
	}
	return a
}

func TestAllocationNeverExceedsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		var sum, keep Share
		for i, s := range allocate(a) {
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
	})
}

// liveOf returns the indices of the regions that are not silent.
func liveOf(a allocation) []int {
	var live []int
	for i, c := range a.Regions {
		if !c.Silent {
			live = append(live, i)
		}
	}
	return live
}

func TestEveryRegionGetsItsDemandOrItsFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		live := liveOf(a)
		if len(live) == 0 {
			return
		}
		fair := int64(a.Avail.Rate)/int64(len(live)) - int64(len(a.Regions)) // rounding of the floors
		want, _, _ := a.demands(live, int64(a.Avail.Rate))
		out := allocate(a)
		for n, i := range live {
			if int64(out[i].Rate) < min(want[n], fair) {
				t.Fatalf("region %d wants %d, its fair share is %d, it got %d", i, want[n], fair, out[i].Rate)
			}
		}
	})
}

// Only a region whose bucket is not short waits, and only as long as its tokens last.
func TestWhoIsShortDoesNotWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		for _, i := range liveOf(a) {
			c := a.Regions[i]
			want, _ := a.wants(c, true)
			short := c.Tokens < Scale(a.Capacity, c.Now.Burst)/4 || c.Tokens < a.drained(c)
			if got := a.wantWhenShort(c, want); got < want && (c.Demand.Rejecting || short) {
				t.Fatalf("region %d wants %d and waits with %d: %+v", i, want, got, c)
			}
		}
	})
}

func TestAllocationConservesWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		live := liveOf(a)
		if len(live) == 0 {
			return
		}
		idle := int64(a.Avail.Rate)
		out := allocate(a)
		for _, i := range live {
			idle -= int64(out[i].Rate)
		}
		_, _, contested := a.demands(live, int64(a.Avail.Rate))
		if contested && idle > int64(len(live)) {
			t.Fatalf("%d units idle of %d while some region is short", idle, a.Avail.Rate)
		}
		if idle > poolReserve+int64(len(live)) {
			t.Fatalf("%d units idle, more than the reserve", idle)
		}
	})
}

func TestWaterLevelIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "regions")
		units := rapid.Int64Range(0, Unit)
		base, weight := make([]int64, n), make([]int64, n)
		d1, d2 := make([]int64, n), make([]int64, n)
		for i := range n {
			weight[i] = Unit / int64(n)
			d1[i], d2[i] = units.Draw(t, "d1"), units.Draw(t, "d2")
		}
		g1, g2 := fill(Unit, base, d1, weight), fill(Unit, base, d2, weight)
		var moved, changed int64
		for i := range n {
			moved += abs(g1[i] - g2[i])
			changed += abs(d1[i] - d2[i])
		}
		if moved > 2*changed+2*int64(n) {
			t.Fatalf("demand changed by %d, the allocation by %d", changed, moved)
		}
	})
}

func TestOneRequestIsNeverCutToPieces(t *testing.T) {
	floor := Share{Unit / 3, Unit / 3}
	a := allocation{Capacity: 1 * microToken, Avail: Share{Unit, Unit}}
	for range 3 {
		a.Regions = append(a.Regions, claim{
			Now: floor, Floor: floor, Keep: ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: microToken}),
			Demand: demandNow{Known: true, Rejecting: true, Fast: Unit / 2, Slow: Unit / 2},
		})
	}
	whole := 0
	for _, s := range allocate(a) {
		if Scale(a.Capacity, s.Burst) >= microToken {
			whole++
		}
	}
	if whole != 1 {
		t.Fatalf("%d regions can admit a request of a limit of one, want exactly one", whole)
	}
}

func TestApportionIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		sum := rapid.Int64Range(1, 1<<50).Draw(t, "total")
		weights := make([]int64, n)
		for i := range weights {
			weights[i] = rapid.Int64Range(0, 1<<40).Draw(t, "weight")
		}
		parts := apportion(sum, weights)
		if total(parts) != sum {
			t.Fatalf("parts sum to %d of %d", total(parts), sum)
		}
		for i := range parts {
			if parts[i] < 0 || weights[i] == 0 && total(weights) > 0 && parts[i] > 1 {
				t.Fatalf("part %d for weight %d", parts[i], weights[i])
			}
		}
	})
}

func TestFloorsSumToTheWholeExactly(t *testing.T) {
	for n := 1; n <= 40; n++ {
		var sum Share
		for _, r := range NewConfig(make([]string, n), 10*time.Second, 20_000).Regions {
			sum = sum.Add(r.Floor)
		}
		if sum != (Share{Unit, Unit}) {
			t.Errorf("%d regions: floors sum to %v", n, sum)
		}
	}
}

func TestConnectedFloorKeepsOneRequestAtHand(t *testing.T) {
	floor := Share{Unit / 3, Unit / 3}
	for _, capacity := range []int64{6, 30, 100, 299, 300, 1000, 1_000_000} {
		k := ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: capacity * microToken, Placement: PlacementSplit})
		if Scale(capacity*microToken, k.Burst) < microToken {
			t.Errorf("capacity %d: an idle region keeps %v, not a whole request", capacity, k)
		}
		if !k.Within(floor) || k.Rate > Unit/100 {
			t.Errorf("capacity %d: keeps %v of a floor of %v", capacity, k, floor)
		}
	}
	if k := ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: 2 * microToken, Placement: PlacementSplit}); k != (Share{}) {
		t.Errorf("a limit of 2 over 3 regions keeps %v back, want nothing", k)
	}
}

func TestUnmeasuredDemandIsNotZero(t *testing.T) {
	// TiKV's resource control once read an unset average as no demand and starved
	// the client (pd 11148).
	c := claim{Now: Share{Rate: Unit / 2}}
	if want, _ := (allocation{}).wants(c, true); want != Unit/2 {
		t.Errorf("unknown demand counts as %d, want the present share", want)
	}
	c.Demand.Rejecting = true
	if want, _ := (allocation{}).wants(c, true); want != Unit {
		t.Errorf("unknown demand of a region that rejects counts as %d, want whatever is fair", want)
	}
}

func TestRateOfUsageInUnitsOfTheLimit(t *testing.T) {
	limit := KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken}
	for _, c := range []struct {
		amount int64
		over   time.Duration
		want   int64
	}{
		{0, time.Second, 0},
		{50 * microToken, time.Second, Unit / 2},
		{10 * microToken, 200 * time.Millisecond, Unit / 2},
		{1000 * microToken, time.Second, Unit},
		{1 << 62, time.Millisecond, Unit},
	} {
		if got := rateUnits(c.amount, c.over, limit); abs(got-c.want) > 1 {
			t.Errorf("%d in %v: %d, want %d", c.amount, c.over, got, c.want)
		}
	}
}
