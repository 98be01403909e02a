package budget

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAddedRegionGetsItsFloorFromWhatOthersGaveUp(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.change(func(l *Ledger) error { return l.AddRegion("d", 1) })
	w.run(15 * time.Second)
	if floor := w.ledger.Config.Regions[0].Told.Rate; floor != Unit/3+1 {
		t.Errorf("a made room for a region that nobody has heard of: its floor is %d", floor)
	}
	w.join(3)
	w.runUntil("every region has a quarter", 10*time.Second, w.steady)
	w.load = []int64{0, 0, 0, 10}
	w.runUntil("d has the rate", 5*time.Second, func() bool { return w.rate(3) >= 970 })
	for i, r := range w.ledger.Config.Regions {
		if r.Floor.Rate != Unit/4 || r.Told != r.Floor {
			t.Errorf("region %d: %+v", i, r)
		}
	}
	if d := w.ledger.Config.Regions[3]; d.Low != (Share{}) || d.FloorVersion == 0 {
		t.Errorf("nothing says that d's buckets began empty: %+v", d)
	}
}

func TestSilentRegionKeepsItsFloorUntilItAcknowledgesOrIsFenced(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.cut[2] = true
	w.change(func(l *Ledger) error { return l.DrainRegion("c") })
	w.run(40 * time.Second)
	if c := w.ledger.Config.Regions[2]; c.Told != (Share{}) || c.Floor.Rate < Unit/3 {
		t.Errorf("c, which nobody can ask, is %+v", c)
	}
	if w.rate(0) > 1000-333 {
		t.Errorf("a has %d per mille beside a silent region that may serve its floor", w.rate(0))
	}
	w.change(func(l *Ledger) error { return l.FenceRegion("c") })
	w.runUntil("a and b have half each", 10*time.Second, w.steady)
	w.runUntil("a has all but what b keeps", 20*time.Second, func() bool { return w.rate(0) >= 980 })
}

func TestDrainedRegionEndsAtZero(t *testing.T) {
	w := started(t, 3)
	w.load = []int64{10, 10, 0}
	w.run(3 * time.Second)
	w.change(func(l *Ledger) error { return l.DrainRegion("a") })
	w.runUntil("a has no floor", 10*time.Second, w.steady)
	w.runUntil("a holds nothing, though it asks for more", 5*time.Second, func() bool { return !w.ledger.Holds(0) })
	w.runUntil("b has the rate", 5*time.Second, func() bool { return w.rate(1) >= 980 && w.rate(0) == 0 })
	w.load = []int64{0, 0, 0}
	w.cut[0] = true // its daemon is stopped
	w.runUntil("keys cool down without it", 60*time.Second, func() bool { return w.ledger.Len() == 0 })
	w.cut[0] = false
	w.change(func(l *Ledger) error { return l.AddRegion("a", 1) })
	w.runUntil("a is back", 10*time.Second, w.steady)
}

func TestWeightsMoveFloors(t *testing.T) {
	w := started(t, 2)
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 3) })
	w.runUntil("three quarters to one", 10*time.Second, w.steady)
	if a, b := w.ledger.Config.Regions[0], w.ledger.Config.Regions[1]; a.Told.Rate != Unit/4*3 || b.Told.Rate != Unit/4 {
		t.Errorf("floors are %v and %v", a.Told, b.Told)
	}
	var right Right
	w.runUntil("a knows", time.Second, func() bool {
		right = w.regions[0].Right(w.key, w.limit, w.now)
		return right.Floor.Rate == Unit/4*3
	})
	if right.FloorSince == 0 || right.Low.Rate != Unit/2 {
		t.Errorf("a would count what it earned before at three quarters: %+v", right)
	}
	if err := w.ledger.AdvanceFloors(w.ledger.Config.Version, Progress{Settled: true}); err != nil {
		t.Fatal(err)
	}
	w.elect()
	w.runUntil("the change is forgotten", 5*time.Second, func() bool {
		return w.regions[0].Right(w.key, w.limit, w.now).FloorSince == 0
	})
}

func TestChangesOfRegionsThatMakeNoSense(t *testing.T) {
	l := &Ledger{Config: NewConfig([]string{"a", "b"}, 10*time.Second, 20_000)}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"add one there is", l.AddRegion("a", 1), ErrRegionExists},
		{"weight 0", l.AddRegion("c", 0), ErrBadWeight},
		{"weight 1001", l.UpdateRegion("a", 1001), ErrBadWeight},
		{"weight of an unknown one", l.UpdateRegion("x", 1), ErrUnknownRegion},
		{"drain an unknown one", l.DrainRegion("x"), ErrUnknownRegion},
		{"fence an unknown one", l.FenceRegion("x"), ErrUnknownRegion},
		{"drain b", l.DrainRegion("b"), nil},
		{"drain b again", l.DrainRegion("b"), nil},
		{"weight of a drained one", l.UpdateRegion("b", 2), ErrRegionGone},
		{"drain the last one", l.DrainRegion("a"), ErrLastRegion},
		{"fence the last one", l.FenceRegion("a"), ErrLastRegion},
		{"add b again", l.AddRegion("b", 1), nil},
		{"drain a while b has not joined", l.DrainRegion("a"), ErrLastRegion},
		{"a step of another version", l.AdvanceFloors(99, Progress{Acknowledged: []int{0}}), ErrStaleFloors},
		{"a step of an unknown region", l.AdvanceFloors(l.Config.Version, Progress{Acknowledged: []int{5}}), ErrUnknownRegion},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
}

// For any commands of operators and any order of acknowledgements: bounds never sum above the
// whole, no region is told more than its bound, and entries keep a share for every region. When all
// acknowledge, the floors become what the weights say.
func TestFloorsUnderRandomChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Ledger{Config: NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)}
		l.MintEpoch()
		third := l.Config.Regions[1].Floor
		if err := l.Apply(Plan{Epoch: 1, Changes: []Entry{{Key: KeyID{Rule: 1}, Shares: []Share{third, third, third}}}}); err != nil {
			t.Fatal(err)
		}
		names := []string{"a", "b", "c", "d", "e"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			weight := rapid.Int32Range(1, MaxWeight).Draw(t, "weight")
			before, version := l.Epoch, l.Config.Version
			var err error
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				err = l.AddRegion(name, weight)
			case 1:
				err = l.UpdateRegion(name, weight)
			case 2:
				err = l.DrainRegion(name)
			case 3:
				err = l.FenceRegion(name)
			default:
				n := len(l.Config.Regions)
				err = l.AdvanceFloors(version, Progress{Acknowledged: rapid.SliceOfDistinct(rapid.IntRange(0, n-1), func(i int) int { return i }).Draw(t, "acks")})
			}
			if (l.Config.Version != version) != (l.Epoch != before) || err != nil && l.Config.Version != version {
				t.Fatalf("version %d to %d, epoch %d to %d, error %v", version, l.Config.Version, before, l.Epoch, err)
			}
			checkFloorsOf(t, l)
		}
		for range 4 {
			var all []int
			for i := range l.Config.Regions {
				all = append(all, i)
			}
			_ = l.AdvanceFloors(l.Config.Version, Progress{Acknowledged: all}) // at the end there is nothing left to do
			checkFloorsOf(t, l)
		}
		if !l.Config.Steady() {
			t.Fatalf("everyone has acknowledged everything, and yet: %+v, targets %v", l.Config.Regions, l.Config.Targets())
		}
	})
}

func checkFloorsOf(t *rapid.T, l *Ledger) {
	var sum Share
	for _, r := range l.Config.Regions {
		sum = sum.Add(r.Floor)
		if !r.Told.Within(r.Floor) || !r.Low.Within(r.Told) || r.Floor.Rate < 0 || r.Floor.Burst < 0 {
			t.Fatalf("bound %v, told %v, lowest %v", r.Floor, r.Told, r.Low)
		}
	}
	if !sum.Within(Share{Unit, Unit}) {
		t.Fatalf("floors sum to %v", sum)
	}
	if err := l.check(Entry{Shares: l.Shares(KeyID{Rule: 1})}); err != nil {
		t.Fatal(err)
	}
}

// A key that was hot before the floor grew has its own liability. A daemon that does not know the
// key yet counts on no more than the region has had all along.
func TestChangedFloorHoldsOnceASessionHasToldTheShares(t *testing.T) {
	w := started(t, 2)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.change(func(l *Ledger) error { return l.UpdateRegion("b", 3) })
	w.runUntil("a quarter to three", 10*time.Second, w.steady)
	unknown := KeyID{Rule: 7}
	floor := func() Share { return w.regions[1].Right(unknown, w.limit, w.now).Floor }
	w.runUntil("b knows", time.Second, func() bool { return floor().Rate == Unit/4*3 })

	kept := w.regions[1].Config()
	restarted := NewRegion(1, Config{}, 99, w.now)
	restarted.SetConfig(1, kept, "epoch-b", 0, w.now) // on the contents that were full at first
	restarted.Step(StoreEpoch{"epoch-b"}, w.now)
	w.regions[1] = restarted
	if got := floor(); got.Rate != Unit/2 {
		t.Errorf("restarted, b enforces %v of keys it knows nothing of", got)
	}
	w.runUntil("a session tells it", 10*time.Second, func() bool { return floor().Rate == Unit/4*3 })
	if right := restarted.Right(unknown, w.limit, w.now); right.FloorSince == 0 || right.Low.Rate != Unit/2 {
		t.Errorf("what b earned before counts at three quarters: %+v", right)
	}

	w.cut[1] = true
	restarted = NewRegion(1, Config{}, 100, w.now)
	restarted.SetConfig(1, kept, "", 0, w.now)
	restarted.Step(StoreEpoch{"epoch-b"}, w.now)
	w.regions[1] = restarted
	w.run(kept.FloorAfter() + tick)
	if got := floor(); got.Rate != Unit/4*3 {
		t.Errorf("cut off for good, b enforces %v, though everyone has made room for its floor", got)
	}
}

// A smaller share that may not have reached the store is not acknowledged, but the region believes
// in no more than that share: another daemon of the region may have acknowledged it.
func TestAShrinkThatFailedIsBelieved(t *testing.T) {
	w := started(t, 2)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	a := w.regions[0]
	held := a.Right(w.key, w.limit, w.now)
	a.applying = &applying{left: map[KeyID]Action{w.key: {Key: w.key, Share: Share{Rate: 5, Burst: 7}}}}
	a.Step(SharesApplied{Results: []ShareResult{{Key: w.key, Failed: true}}}, w.now)
	right := a.Right(w.key, w.limit, w.now)
	if right.Share != (Share{Rate: 5, Burst: 7}) || right.Gen != held.Gen {
		t.Errorf("a believes in %+v", right)
	}
	if a.session.open {
		t.Error("the session is still open")
	}
}

// A leader that was not told the limit of a hot key still takes a drained region's share of it
// away.
func TestDrainedRegionGivesUpAKeyOfUnknownLimit(t *testing.T) {
	w := started(t, 2)
	w.load[1] = 10
	w.runUntil("b has the rate", 3*time.Second, func() bool { return w.rate(1) >= 980 })
	w.load[1] = 0
	w.change(func(l *Ledger) error { return l.DrainRegion("b") })
	for _, r := range w.regions {
		for _, h := range r.hot {
			h.limit = KeyLimit{} // as after a restart
		}
	}
	w.runUntil("b holds nothing", 5*time.Second, func() bool { return w.rate(1) == 0 && w.ledger.Shares(w.key)[1] == Share{} })
}

// What a bucket earned before its floor grew counts at the smaller floor until every bucket has had
// time to fill. The change is not forgotten before.
func TestAChangeIsRememberedUntilEveryBucketCouldFill(t *testing.T) {
	const fill = 30 * time.Second
	w := started(t, 2)
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 3) })
	w.runUntil("three quarters to one", 10*time.Second, w.steady)
	steps := NewFloorSteps(&w.ledger.Config, w.now)
	steps.SetRules(fill, 0)
	steady := w.now
	w.runUntil("the change may be forgotten", fill+10*time.Second, func() bool {
		p, due := steps.Due(w.leader, w.now)
		return p.Settled && due
	})
	if waited := w.now.Sub(steady); waited < fill {
		t.Errorf("after %v", waited)
	}
}
