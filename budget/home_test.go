package budget

import (
	"math/rand/v2"
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

// A roamer is a client that asks one region after the other for its limit. Each check waits for a share as a
// daemon lets it.
type roamer struct {
	*world
	refused, moves int
	longest        time.Duration
}

// ask asks region i for one request and lets time pass while the check waits.
func (c *roamer) ask(i int) {
	wait := min(300*time.Millisecond+6*c.way(i), 500*time.Millisecond)
	began, held := c.now, c.rate(i)
	admitted := c.take(i)
	for !admitted && c.now.Sub(began) < wait {
		c.run(tick)
		if c.rate(i) > held {
			held = c.rate(i)
			c.moves++
			admitted = c.take(i)
		}
	}
	if !admitted {
		c.refused++
	}
	c.longest = max(c.longest, c.now.Sub(began))
}

// take takes one request in region i, if it is there.
func (c *roamer) take(i int) bool {
	right := c.regions[i].Right(c.key, c.limit, c.now)
	u := Usage{
		Rules: c.regions[i].rules, Limit: c.limit, Cost: microToken,
		FloorCap: Scale(c.limit.Capacity, right.Floor.Burst), ColdCap: Scale(c.limit.Capacity, right.Floor.Burst),
	}
	rounded := 3 * (c.limit.Capacity/Unit + 3) // a check waits until its bucket has earned that
	if u.Admitted = c.bank[i] >= microToken-rounded; u.Admitted {
		c.bank[i] = max(c.bank[i]-microToken, 0)
	}
	u.Tokens = c.bank[i]
	c.regions[i].Observe(c.key, u, c.now)
	return u.Admitted
}

// A client below its limit may ask any region at any time: its limit follows it while its check waits.
func TestASmallLimitFollowsTheClient(t *testing.T) {
	ways := map[string]func(n, of int) int{
		"half in each":   func(n, of int) int { return min(2*n/of, 1) },
		"two in turns":   func(n, _ int) int { return n % 2 },
		"three in turns": func(n, _ int) int { return n % 3 },
		"as by chance":   func(n, of int) int { return (n*n*7 + of) % 11 % 3 },
		"two, then two":  func(n, _ int) int { return n / 2 % 3 },
	}
	for _, far := range []time.Duration{0, 40 * time.Millisecond} {
		for _, capacity := range []int64{2, 3, 5, 10, 100} {
			for name, way := range ways {
				w := newWorld(t, 3)
				w.limit = KeyLimit{Capacity: capacity * microToken, Rate: capacity * microToken / 3600, Placement: PlacementHome}
				w.far, w.commits = []time.Duration{far, far, far}, 10*time.Millisecond
				w.elect()
				w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
				for i, r := range w.ledger.Config.Regions {
					w.bank[i] = Scale(w.limit.Capacity, r.Floor.Burst)
				}
				c := &roamer{world: w}
				began := w.now
				for n := range int(capacity) {
					c.ask(way(n, int(capacity)))
				}
				t.Logf("limit %d, %v away, %s: %d refused, %d moves in %v, longest %v", capacity, far, name, c.refused, c.moves, w.now.Sub(began), c.longest)
				if c.refused > 0 {
					t.Errorf("limit %d, %v away, %s: %d refused", capacity, far, name, c.refused)
				}
			}
		}
	}
}

// rove lets a client ask for all of a limit of ten an hour, each time in a region drawn, with pauses drawn. Messages and
// commits take up to so many ticks; apart: messages of each region another time.
func rove(t *testing.T, seed uint64, far, commit int, apart bool) *roamer {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, 3)
	w.limit = KeyLimit{Capacity: 10 * microToken, Rate: microToken / 360}
	way := time.Duration(rnd.IntN(far+1)) * tick
	for range w.regions {
		if apart {
			way = time.Duration(rnd.IntN(far+1)) * tick
		}
		w.far = append(w.far, way)
	}
	w.commits = time.Duration(rnd.IntN(commit+1)) * tick
	w.elect()
	w.runUntil("every region holds a lease", 3*time.Second, w.allLive)
	for i, r := range w.ledger.Config.Regions {
		w.bank[i] = Scale(w.limit.Capacity, r.Floor.Burst)
	}
	c, pause := &roamer{world: w}, rnd.IntN(6)
	for range 10 {
		c.ask(rnd.IntN(3))
		w.run(time.Duration(rnd.IntN(pause+1)) * tick)
	}
	w.run(2 * time.Second)
	return c
}

// No check of a client below its limit is refused, whatever the order of its regions and its pauses.
func TestARovingClientIsNotRefused(t *testing.T) {
	for seed := range uint64(1000) {
		if c := rove(t, seed, 2, 1, false); c.refused > 0 {
			t.Errorf("seed %d: %d of 10 refused, messages take %v and commits %v", seed, c.refused, c.way(0), c.commits)
		}
	}
}

// Tokens that a home was to get go to the next home, wherever they are when the home moves on.
func TestNoTokenIsLostOnTheWayToAHome(t *testing.T) {
	for seed := range uint64(1000) {
		c := rove(t, seed, 4, 7, true)
		left := c.leader.keys[c.key].pool + c.bank[0] + c.bank[1] + c.bank[2]
		if used := int64(10-c.refused) * microToken; used+left < c.limit.Capacity-1000 {
			t.Errorf("seed %d: %d micro-tokens used and %d left, of %d", seed, used, left, c.limit.Capacity)
		}
	}
}

// conversation is a region of a limit with a home, which a test answers in place of a leader.
type conversation struct {
	*world
	r    *Region
	gen  Gen
	said *KeyReport // what the latest report says of the key, nil: nothing
}

func converse(t *testing.T) *conversation {
	w := small(t, 3)
	w.load = []int64{1, 0, 0}
	w.runUntil("a holds all of it", time.Second, func() bool { return w.rate(0) == 1000 })
	c := &conversation{world: w, r: w.regions[0], gen: Gen{Epoch: w.ledger.Epoch, Counter: 1 << 30}}
	c.answer(Unit / 10)
	c.reports(ReportKeyEvery)
	c.answer(Unit / 10)
	c.reports(ReportKeyEvery)
	return c
}

// asks lets a request be decided.
func (c *conversation) asks(admitted bool) {
	c.r.Observe(c.key, Usage{Rules: c.r.rules, Limit: c.limit, Cost: microToken, Admitted: admitted}, c.now)
}

// reports answers the region's report some time later, and returns what it then says of the key; nil: nothing.
func (c *conversation) reports(later time.Duration) *KeyReport {
	c.said = nil
	c.now = c.now.Add(later - MinReportGap)
	c.answer(c.r.hot[c.key].share.Burst)
	c.hear(c.r.Step(RegionTick{}, c.now))
	return c.said
}

func (c *conversation) hear(effects []RegionEffect) {
	for _, e := range effects {
		switch e := e.(type) {
		case ApplyShares:
			done := SharesApplied{}
			for range e.Changes {
				done.Results = append(done.Results, ShareResult{Key: c.key})
			}
			c.hear(c.r.Step(done, c.now))
		case SendReport:
			c.said = nil
			if len(e.Report.Keys) > 0 {
				c.said = &e.Report.Keys[0]
			}
		}
	}
}

// answer answers the report in flight with a share of the key.
func (c *conversation) answer(share int32) {
	c.now = c.now.Add(MinReportGap)
	c.gen.Counter++
	s := &c.r.session
	d := Directive{Epoch: s.epoch, Session: s.id, Seq: s.seq, TSend: s.tSend}
	if c.r.hot[c.key].share.Burst != share {
		d.Actions = []Action{{Key: c.key, Gen: c.gen, Share: Share{Rate: share, Burst: share}, Limit: c.limit}}
	}
	c.hear(c.r.Step(DirectiveReceived{d}, c.now))
}

// The region of a check that waits goes on wanting its limit: what acknowledges a smaller share says that it refuses.
func TestAnAcknowledgementTakesNoRefusalBack(t *testing.T) {
	c := converse(t)
	c.asks(false)
	if rep := c.reports(MinReportGap); rep == nil || !rep.Rejecting {
		t.Fatalf("reported %+v, and a request was refused", rep)
	}
	c.answer(0)
	if rep := c.said; rep == nil || rep.Share != (Share{}) || !rep.Rejecting {
		t.Errorf("acknowledged with %+v, and the check waits", rep)
	}
	c.answer(Unit)
	if rep := c.said; rep == nil || rep.Share.Burst != Unit || rep.Rejecting {
		t.Errorf("acknowledged with %+v, and the check has its share", rep)
	}
}

// A client that was refused and has left does not keep the limit in its region: nobody waits any more.
func TestARefusalOfAClientThatLeftEnds(t *testing.T) {
	c := converse(t)
	c.asks(false)
	if rep := c.reports(MinReportGap); rep == nil || !rep.Rejecting {
		t.Fatalf("reported %+v, and a request was refused", rep)
	}
	c.now = c.now.Add(waitsForShare)
	c.answer(0)
	if rep := c.said; rep == nil || rep.Share != (Share{}) || rep.Rejecting {
		t.Errorf("acknowledged with %+v, a second after the only request", rep)
	}
}

// A home that refused requests and then admitted one says that it refuses nobody, although nothing else happens.
func TestAHomeTakesItsRefusalsBack(t *testing.T) {
	c := converse(t)
	c.answer(Unit)
	c.reports(ReportKeyEvery)
	c.asks(false)
	c.asks(true)
	if rep := c.reports(ReportKeyEvery); rep == nil || !rep.Rejecting {
		t.Fatalf("reported %+v, and a request was refused", rep)
	}
	if rep := c.reports(ReportKeyEvery); rep == nil || rep.Rejecting {
		t.Errorf("reported %+v, and the latest request was admitted", rep)
	}
	if rep := c.reports(ReportKeyEvery); rep != nil {
		t.Errorf("reported %+v again", rep)
	}
}
