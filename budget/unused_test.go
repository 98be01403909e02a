package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// atFloors returns what three regions at their floors hold of a limit of the given requests.
func atFloors(requests int64) allocation {
	limit := KeyLimit{Capacity: requests * microToken, Tail: time.Minute}
	a := allocation{Capacity: limit.Capacity, Counts: true, Avail: Share{Rate: Unit, Burst: Unit}}
	c := NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	for i := range c.Regions {
		floor := c.Regions[i].Floor
		a.Regions = append(a.Regions, claim{Now: floor, Floor: floor, Keep: ofThirds().ConnectedFloor(floor, limit)})
	}
	return a
}

// rights returns how many requests each region may have in use.
func (a allocation) rights(target []Share) (out []int64) {
	for _, s := range target {
		out = append(out, Scale(a.Capacity, s.Burst)/microToken)
	}
	return out
}

// TestAnIdleRegionLendsAllItHasUnused: the region that refuses requests gets everything that others
// do not use of a small limit, and all but a fiftieth of that of a large one.
func TestAnIdleRegionLendsAllItHasUnused(t *testing.T) {
	for _, c := range []struct {
		requests, want int64
	}{{1, 1}, {2, 2}, {3, 3}, {5, 5}, {10, 10}, {20, 20}, {100, 100}, {149, 149}, {300, 297}, {10_000, 9_867}} {
		a := atFloors(c.requests)
		a.Regions[1].Demand = demandNow{Rejecting: true}
		target, move := a.lendUnused()
		if got := a.rights(target)[1]; !move || got != c.want {
			t.Errorf("of %d requests the region that asks is to have %d, want %d", c.requests, got, c.want)
		}
	}
}

// TestARegionKeepsWhatItUses: a region that uses the key keeps what is in use, and a part of
// the rest by its demand.
func TestARegionKeepsWhatItUses(t *testing.T) {
	a := atFloors(100)
	a.Regions[0].Demand, a.Regions[0].Recent, a.Regions[0].Used = demandNow{Known: true, Rejecting: true, Fast: 300}, true, 33*microToken
	a.Regions[1].Demand, a.Regions[1].Recent, a.Regions[1].Used = demandNow{Known: true, Fast: 100}, true, 7*microToken
	target, move := a.lendUnused()
	if got := a.rights(target); !move || got[0] != 33+44 || got[1] != 7+15 || got[2] != 0 {
		t.Errorf("of 60 unused requests at demands of 3 and 1: %d, want 77, 22 and 0: parts of a limit are rounded, and one request is lost by it", got)
	}
}

// TestOnlyARefusalMovesRights: nothing moves while every region admits what it is asked, and no
// move is smaller than a request.
func TestOnlyARefusalMovesRights(t *testing.T) {
	a := atFloors(100)
	a.Regions[0].Demand, a.Regions[0].Recent, a.Regions[0].Used = demandNow{Known: true, Fast: Unit}, true, 30*microToken
	if target, move := a.lendUnused(); move || target[0] != a.Regions[0].Now {
		t.Errorf("nobody is refused, and %v is to move", target)
	}
	a.Regions[0].Demand.Rejecting = true
	for i := range a.Regions {
		a.Regions[i].Recent, a.Regions[i].Used = true, 33*microToken
		a.Regions[i].Now = Share{Rate: Unit / 100 * 33, Burst: partOf(33*microToken, a.Capacity)}
	}
	a.Avail = a.Regions[0].Now.Add(a.Regions[1].Now).Add(a.Regions[2].Now)
	if target, move := a.lendUnused(); move {
		t.Errorf("all is in use, and %v is to move", target)
	}
}

func TestUnusedRightsNeverExceedWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAllocation(t)
		a.Counts = true
		for i := range a.Regions {
			c := &a.Regions[i]
			c.Recent = rapid.Bool().Draw(t, "recent")
			c.Used = rapid.Int64Range(0, a.Capacity).Draw(t, "used")
		}
		target, move := a.lendUnused()
		if !move {
			return
		}
		var sum, keep Share
		for i, s := range target {
			if s.Rate < 0 || s.Burst < 0 {
				t.Fatalf("negative share %v", s)
			}
			if c := a.Regions[i]; !c.Silent {
				sum, keep = sum.Add(s), keep.Add(c.Keep.Max(c.Now))
			}
		}
		if sum.Burst > max(a.Avail.Burst, keep.Burst) {
			t.Fatalf("allocated %v of %v", sum, a.Avail)
		}
	})
}
