package budget

import (
	"slices"
	"testing"
	"time"
)

// rights is what the stores of a world know of a counting limit: when each request was admitted.
type rights struct {
	used  [][]Instant
	label int64   // the label that every store reports of its window, if the limit has labels
	froms []int64 // the windows from which growths count
	lost  Instant // until then the stores have lost what they knew, and say that everything may be in use
	// lostBy is the same for the store of one region, which admits nothing meanwhile; nil: no store.
	lostBy []Instant
}

// counting returns a world whose key is a log of 90 requests in any 12 seconds.
func counting(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.limit = KeyLimit{Capacity: 90 * microToken, Rate: 7_500_000, Tail: 12 * time.Second, Placement: PlacementSplit}
	w.rights = &rights{used: make([][]Instant, n)}
	w.elect()
	w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
	return w
}

// inUse is what counts in a region's store, in requests.
func (w *world) inUse(i int) int64 {
	w.rights.used[i] = slices.DeleteFunc(w.rights.used[i], func(at Instant) bool { return w.now.Sub(at) >= w.limit.Tail })
	return int64(len(w.rights.used[i]))
}

func (w *world) capOf(i int) int64 {
	return Scale(w.limit.Capacity, w.regions[i].Right(w.key, w.limit, w.now).Effective().Burst) / microToken
}

// useRights asks for load requests, and checks I3: what is in use, or may be, is at most the limit.
func (w *world) useRights(i int, load int64) {
	most := w.capOf(i)
	for range load {
		u := Usage{Rules: w.regions[i].rules, Limit: w.limit, Cost: microToken, FloorCap: most * microToken, ColdCap: most * microToken}
		if w.inUse(i) < most && (w.rights.lostBy == nil || !w.storeLost(i)) {
			w.rights.used[i] = append(w.rights.used[i], w.now)
			w.got++
			u.Admitted = true
		}
		u.Tokens = max(0, most-w.inUse(i)) * microToken
		if w.rights.lostBy != nil && w.storeLost(i) {
			u.Tokens = 0
		}
		w.regions[i].Observe(w.key, u, w.now)
	}
	var sum int64
	for j := range w.regions {
		if !w.ledger.Config.Regions[j].Fenced {
			sum += max(w.inUse(j), w.capOf(j))
		} else {
			sum += w.inUse(j)
		}
	}
	if sum > w.limit.Capacity/microToken {
		w.t.Fatalf("%d requests are in use, or may be, of %d", sum, w.limit.Capacity/microToken)
	}
}

// lostOf returns until when the store of a region knows nothing.
func (r *rights) lostOf(i int) Instant {
	if r.lostBy == nil {
		return 0
	}
	return r.lostBy[i]
}

func (w *world) storeLost(i int) bool { return w.now < max(w.rights.lost, w.rights.lostOf(i)) }

func (w *world) storeRights(i int, c ShareChange) ShareResult {
	used, most := w.inUse(i), Scale(w.limit.Capacity, c.Share.Burst)/microToken
	res := ShareResult{Key: c.Key, InUse: used * microToken, Label: w.rights.label, Capacity: w.limit.Capacity, Tail: w.limit.Tail, Tokens: max(0, most-used) * microToken}
	if w.storeLost(i) {
		res.InUse, res.Tokens, res.Due = 1e15, 0, max(w.rights.lost, w.rights.lostOf(i)).Sub(w.now)
	} else if excess := used - most; excess > 0 {
		res.Due = w.rights.used[i][excess-1].Add(w.limit.Tail).Sub(w.now)
	}
	if h := w.regions[i].hot[c.Key]; h != nil && h.share.Burst < c.Share.Burst {
		w.rights.froms = append(w.rights.froms, c.From)
	}
	return res
}

// A share that shrinks is in force at once. It goes to others only as fast as earlier admissions
// cease to count. Meanwhile the session continues.
func TestShrunkShareIsAcknowledgedAsItsUseEnds(t *testing.T) {
	w := counting(t, 2)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	began := w.now
	w.load = []int64{0, 3}
	w.runUntil("a's share is small", 5*time.Second, func() bool { return w.capOf(0) <= 8 })
	if b := w.capOf(1); b > 8 {
		t.Errorf("b may use %d while a's requests count", b)
	}
	if l := w.ledger.Shares(w.key)[0]; Scale(w.limit.Capacity, l.Burst)/microToken < w.inUse(0) {
		t.Errorf("a is liable for %v and has %d in use", l, w.inUse(0))
	}
	renewed := w.renewed[0]
	w.runUntil("b gets what comes free", w.limit.Tail, func() bool { return w.capOf(1) >= 30 })
	if w.inUse(0) == 0 {
		t.Error("only when all of it was free")
	}
	w.runUntil("b has most of it", 2*time.Second, func() bool { return w.capOf(1) >= 60 })
	if took := w.now.Sub(began); took > w.limit.Tail+2*time.Second {
		t.Errorf("after %v", took)
	}
	if w.renewed[0] < renewed+5 {
		t.Errorf("a's lease was renewed %d times meanwhile", w.renewed[0]-renewed)
	}
	w.runUntil("b has the rest", 30*time.Second, func() bool { return w.capOf(1) >= 84 })
	if len(w.regions[0].outlasting) != 0 {
		w.run(time.Second)
		if n := len(w.regions[0].outlasting); n != 0 {
			t.Errorf("a still looks at the use of %d keys", n)
		}
	}
}

// A region that is cut off holds what it used until nothing of it can count any more. It takes its
// own floor back only when the same holds for the others.
func TestFloorsOfRightsWaitForTheTail(t *testing.T) {
	w := counting(t, 3)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	w.run(w.limit.Tail) // and continues
	w.cut[0], w.cut[1] = true, true
	cutAt := w.now
	w.load[2] = 3
	w.runUntil("a's lease is over", 11*time.Second, func() bool { return w.regions[0].Phase(w.now) == Limbo })
	tail := w.ledger.Config.Lengthen(w.limit.Tail)
	atLeader := cutAt.Add(w.ledger.Config.leaseAtLeader())
	for w.now < atLeader.Add(tail-time.Second) {
		w.run(tick)
		if w.ledger.Shares(w.key)[0].Burst < Unit*8/10 {
			t.Fatalf("a's liability came down %v after the cut, to %v", w.now.Sub(cutAt), w.ledger.Shares(w.key)[0])
		}
	}
	w.runUntil("a's liability is its floor", 4*time.Second, func() bool {
		return w.ledger.Shares(w.key)[0].Within(w.ledger.Config.Regions[0].Floor)
	})
	w.runUntil("b would take a bucket's floor back", 10*time.Second, func() bool { return w.regions[1].Phase(w.now) == CutOff })
	if b := w.capOf(1); b > 3 {
		t.Errorf("and may use %d", b)
	}
	w.runUntil("b has its floor back", tail+tick, func() bool { return w.capOf(1) >= 29 })
	bucket := w.ledger.Config.FloorAfter()
	if waited := w.now.Sub(cutAt); waited < bucket+tail-200*time.Millisecond || waited > bucket+tail+tick {
		t.Errorf("after %v", waited)
	}
	w.load[1] = 3
	w.run(20 * time.Second) // all three use what they have: I3 holds
}

// A later leader does not know a limit until a region reports it. Before that it does not treat any
// lease as ended.
func TestTailIsLongestWhileTheLimitIsUnknown(t *testing.T) {
	w := counting(t, 2)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	w.cut[0] = true
	w.fall()
	w.regions[1] = NewRegion(1, w.ledger.Config, 77, w.now) // it has never used the key
	w.regions[1].Step(StoreEpoch{"epoch-b"}, w.now)
	w.elect()
	w.run(time.Minute)
	if l := w.ledger.Shares(w.key)[0]; l.Burst < Unit*8/10 {
		t.Errorf("a's liability is %v", l)
	}
	w.load[1] = 3
	w.runUntil("b has told the limit", 3*time.Second, func() bool {
		return w.ledger.Shares(w.key)[0].Within(w.ledger.Config.Regions[0].Floor)
	})
}

// A growth of a fixed window says from which window on it counts, once every region has reported
// its own window.
func TestGrowthNamesItsFirstWindow(t *testing.T) {
	w := counting(t, 2)
	w.load[0] = 3
	w.runUntil("a has grown", 5*time.Second, func() bool { return w.capOf(0) >= 84 })
	if len(w.rights.froms) == 0 || slices.Max(w.rights.froms) != 0 {
		t.Fatalf("without labels: from %v", w.rights.froms)
	}
	w.rights.label, w.rights.froms = 41, nil
	w.load = []int64{0, 3}
	w.runUntil("b has grown", time.Minute, func() bool { return w.capOf(1) >= 84 })
	w.rights.label = 43
	w.load = []int64{3, 0}
	w.runUntil("a has grown again", time.Minute, func() bool { return w.capOf(0) >= 84 })
	if last := w.rights.froms[len(w.rights.froms)-1]; last != 43 {
		t.Errorf("from %v", w.rights.froms)
	}
	if slices.Contains(w.rights.froms, 42) || !slices.IsSorted(w.rights.froms) {
		t.Errorf("from %v", w.rights.froms)
	}
}

// Windows of another length have other numbers. Rights that a region gains after a window was lengthened count at once,
// as those that it gains under one window do, although numbers of the former windows were told. While a region still
// follows those, what it gains counts from its next window.
func TestNumbersOfFormerWindowsNameNoWindow(t *testing.T) {
	const minutes, days = 29_400_000, 20_400
	w := counting(t, 3)
	w.rights.label = minutes
	w.load = []int64{3, 0, 0}
	w.runUntil("a has grown", 20*time.Second, func() bool { return w.capOf(0) >= 84 })
	w.run(5 * time.Second)
	longer := w.limit
	longer.Tail = 30 * time.Second
	w.inForce(2, longer)
	w.run(time.Second)
	w.rights.label, w.rights.froms = days, nil
	w.load = []int64{0, 3, 0}
	idle := w.regions[2].hot[w.key] // it reports the key again, of which it knows no limit by the new rules
	w.regions[2].queue(w.key, idle)
	if idle.asked || idle.label != minutes {
		t.Fatalf("%+v", idle)
	}
	w.runUntil("b has grown", 2*time.Minute, func() bool { return w.capOf(1) >= 84 })
	if len(w.rights.froms) == 0 || slices.Min(w.rights.froms) < 1 || slices.Max(w.rights.froms) > days {
		t.Errorf("from %v, where the windows are at %d", w.rights.froms, days)
	}
	if last := w.rights.froms[len(w.rights.froms)-1]; last != days {
		t.Errorf("what a gave up in window %d counts from window %d on", days, last)
	}

	r := w.regions[0]
	r.applying = &applying{}
	act := Action{Key: w.key, From: days, Limit: longer}
	if got := r.change(act, w.now).From; got != days {
		t.Errorf("by the rules of the leader: from %d", got)
	}
	former := longer
	former.Tail = time.Minute
	r.hot[w.key].limit = former
	if got := r.change(act, w.now).From; got != 0 {
		t.Errorf("by former rules: from %d, which is the number of another window", got)
	}
	r.applying = nil
	w.leader.keys[w.key].regions[0].label = 0
	rep := KeyReport{Key: w.key, Label: days + 1}
	w.leader.acknowledge(rep, 0, w.leader.keys[w.key])
	if got := w.leader.firstWindow(w.leader.keys[w.key]); got != days+1 {
		t.Errorf("a daemon of an earlier version, which does not say of which windows: from %d", got)
	}
}

// What a fenced region used still counts: no region grows before it ceases to count.
func TestFencedUseCounts(t *testing.T) {
	w := counting(t, 3)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	w.load = []int64{0, 3, 0}
	w.cut[0] = true
	used := w.inUse(0)
	w.change(func(l *Ledger) error { return l.FenceRegion("a") })
	fenced := w.now
	w.runUntil("b has the rest", time.Minute, func() bool { return w.capOf(1) >= 84 })
	if took := w.now.Sub(fenced); used < 80 || took < w.limit.Tail {
		t.Errorf("%v after a was fenced with %d in use", took, used)
	}
}

// A region that is cut off uses its floor, although another one had borrowed it. If it is fenced then, its use
// still counts, so the other one gets no lease for what it had borrowed. The world checks that.
func TestFencedFloorCounts(t *testing.T) {
	w := counting(t, 3)
	w.load[0] = 3
	w.runUntil("a has nearly all", 5*time.Second, func() bool { return w.capOf(0) >= 84 })
	w.load[0] = 0
	w.fall()
	w.runUntil("b has its floor", time.Minute, func() bool { return w.capOf(1) >= 29 })
	w.load[1] = 3
	w.runUntil("b uses it", time.Second, func() bool { return w.inUse(1) >= 29 })
	w.load = []int64{3, 0, 0}
	w.cut[1] = true
	w.change(func(l *Ledger) error { return l.FenceRegion("b") })
	fenced := w.now
	w.runUntil("a has a lease", 10*time.Second, func() bool { return w.regions[0].Phase(w.now) == Live })
	w.runUntil("a has the rest", time.Minute, func() bool { return w.capOf(0) >= 84 })
	if took := w.now.Sub(fenced); took < w.limit.Tail {
		t.Errorf("%v after b was fenced with %d in use", took, w.inUse(1))
	}
}

// The same region is added again at once, before the one that had borrowed is heard. Whether a new daemon of
// it is heard by then or not, that use still counts.
func TestFencedFloorCountsAfterTheRegionIsAddedAgain(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := counting(t, 2)
		w.load[0] = 3
		w.runUntil("a has nearly all", 5*time.Second, func() bool { return w.capOf(0) >= 84 })
		w.load[0] = 0
		w.fall()
		w.runUntil("b has its floor", time.Minute, func() bool { return w.capOf(1) >= 44 })
		w.load[1] = 3
		w.runUntil("b uses it", time.Second, func() bool { return w.inUse(1) >= 44 })
		w.load, w.cut = []int64{0, 0}, []bool{true, true}
		w.change(func(l *Ledger) error { return l.FenceRegion("b") })
		fenced := w.now
		w.join(1)
		w.cut[1] = !back
		w.run(100 * time.Millisecond)
		w.change(func(l *Ledger) error { return l.AddRegion("b", 1) })
		w.run(100 * time.Millisecond)
		w.cut[0], w.load[0] = false, 3
		for w.now < fenced.Add(w.limit.Tail) {
			w.run(tick)
			if a, b := w.inUse(0), w.inUse(1); a+b > 90 {
				t.Fatalf("b is back: %v. %v after b was fenced with %d in use, a has used %d of 90", back, w.now.Sub(fenced), b, a)
			}
		}
		w.runUntil("a has the rest", time.Minute, func() bool { return w.capOf(0) >= 84 || back && w.steady() })
	}
}

// A smaller floor is acknowledged when no use of the larger one counts any more.
func TestFloorOfRightsIsAcknowledgedLate(t *testing.T) {
	w := counting(t, 2)
	began := w.now
	w.change(func(l *Ledger) error { return l.UpdateRegion("b", 3) })
	w.runUntil("a's bound has come down", 30*time.Second, w.steady)
	if took := w.now.Sub(began); took < w.limit.Tail {
		t.Errorf("after %v", took)
	}
}

// A region that has learned of a smaller floor may use a share above it as long as the key is hot.
// The key does not cool down before that use has come down to the floor. Otherwise nothing would
// cover the use when the floor's bound follows.
func TestKeyCoolsDownToTheSmallerFloor(t *testing.T) {
	w := counting(t, 2)
	w.limit.Tail = time.Minute
	w.change(func(l *Ledger) error { return l.UpdateRegion("b", 3) })
	w.run(w.limit.Tail / 2) // a has known of it for a while
	w.load[0] = 3
	w.runUntil("a uses more than it is told, and less than the bound", 5*time.Second, func() bool { return w.inUse(0) >= 36 })
	w.load[0] = 0
	w.runUntil("a's bound has come down", time.Minute, w.steady)
	if told := w.ledger.Config.Regions[0].Told.Burst; w.inUse(0) <= Scale(90, told) || w.inUse(0) > 45 {
		t.Fatalf("this test is to see a with more in use than its floor: %d", w.inUse(0))
	}
	w.run(5 * time.Second) // b has its larger floor, and I3 holds
	w.runUntil("the key is cold", 2*time.Minute, func() bool { return w.ledger.Len() == 0 })
	if w.inUse(0) > 22 {
		t.Errorf("with %d of a's in use", w.inUse(0))
	}
}

// Regions that were cut off return with their floors in use, whatever they had lent. No region gets
// that part, and no lease covers it, before it has ceased to count.
func TestUsedFloorsAreReserved(t *testing.T) {
	w := counting(t, 3)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	w.fall()
	w.run(w.ledger.Config.FloorAfterUse(w.limit.Tail) + time.Second)
	w.load = []int64{0, 3, 3}
	w.runUntil("b and c use their floors", 5*time.Second, func() bool { return w.inUse(1) >= 29 && w.inUse(2) >= 29 })
	w.load = []int64{3, 0, 0}
	w.elect()
	back := w.now
	w.runUntil("a has the limit again", time.Minute, func() bool { return w.inUse(0) >= 84 }) // I3 holds meanwhile
	if took := w.now.Sub(back); took < w.limit.Tail-6*time.Second {
		t.Errorf("after %v", took)
	}
}

// Regions whose stores have lost what they knew report the most that they may have in use. That sums above the limit,
// although the truth cannot. Leases go on meanwhile, because other keys need them.
func TestUnknownUseEndsNoLease(t *testing.T) {
	for _, n := range []int{2, 5} {
		for _, placement := range []Placement{PlacementSplit, PlacementAuto} {
			w := counting(t, n)
			w.limit.Placement = placement
			w.load[0] = 3
			w.runUntil("a uses up the limit", 20*time.Second, func() bool { return w.inUse(0) >= 80 })
			w.fall()
			w.run(w.ledger.Config.leaseAtLeader())
			w.rights.lost = w.now.Add(60 * time.Second)
			clear(w.load)
			w.elect()
			w.run(10 * time.Second)
			before := slices.Clone(w.renewed)
			w.run(10 * time.Second)
			for i := range w.regions {
				if w.renewed[i] < before[i]+5 {
					t.Errorf("%d regions: the lease of region %d was renewed %d times in 10 s", n, i, w.renewed[i]-before[i])
				}
			}
			w.run(w.rights.lost.Sub(w.now))
			w.load[1] = 3
			w.runUntil("what was lost has passed", 20*time.Second, func() bool { return w.inUse(1) >= 80 }) // I3 holds meanwhile
		}
	}
}

// A region that was cut off has used its floor. A report has a bounded number of keys, so the
// region may be heard for a while before it reports this key.
func TestUsedFloorsAreReservedUntilTold(t *testing.T) {
	w := counting(t, 2)
	w.load[0] = 3
	w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
	w.cut[1] = true
	w.run(w.ledger.Config.FloorAfterUse(w.limit.Tail))
	w.load = []int64{0, 3}
	w.runUntil("b uses its floor", 5*time.Second, func() bool { return w.inUse(1) >= 44 })
	w.cut[1], w.left = false, func(i int) bool { return i == 1 }
	w.load = []int64{3, 0}
	w.runUntil("b is heard", time.Second, func() bool { return w.leader.regions[1].live })
	for end := w.now.Add(5 * time.Second); w.now < end; { // I3 holds meanwhile
		w.run(tick)
		if !w.leader.regions[1].live || w.leader.keys[w.key].regions[1].useReported {
			t.Fatal("b is to be heard and not to tell of the key")
		}
	}
	if a := w.capOf(0); a > 46 {
		t.Errorf("a may use %d while nobody knows what b uses", a)
	}
}

// A new leader to which no region has reported a key's limit waits for the longest tail of the
// key's rule, not for the longest possible one.
func TestTailOfALimitThatNobodyTold(t *testing.T) {
	w := started(t, 2)
	w.leader.wantHot(0, ask(1, 5, false), w.now)
	w.run(time.Second)
	l := NewLeader(w.ledger.Clone(), w.now)
	key := l.keys[KeyID{Rule: 1}]
	if key == nil || key.limit.Capacity != 0 {
		t.Fatalf("%+v", key)
	}
	if got, want := l.tailOf(key), l.cfg.Lengthen(MaxTail); got != want {
		t.Errorf("of a rule that is not known it waits %v, want %v", got, want)
	}
	kept := func(uint32) bool { return true }
	for tail, want := range map[time.Duration]time.Duration{
		0: 0, time.Minute: l.cfg.Lengthen(time.Minute), 2 * MaxTail: l.cfg.Lengthen(MaxTail),
	} {
		l.Step(RulesChanged{Kept: kept, Tail: func(uint32) time.Duration { return tail }}, w.now)
		if got := l.tailOf(key); got != want {
			t.Errorf("of a rule whose tail is %v it waits %v, want %v", tail, got, want)
		}
	}
}

// A window is lengthened under its number while nobody uses the key. A region that is cut off right after that uses
// its lease by the new window, and no report tells the leader of it. The leader waits for the new window all the same.
func TestALengthenedWindowThatNobodyTold(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := counting(t, 2)
		w.load[0] = 3
		w.runUntil("a uses up the limit", 5*time.Second, func() bool { return w.inUse(0) >= 84 })
		w.load[0] = 0
		w.run(w.limit.Tail + tick)
		longer := w.limit
		longer.Tail = 2 * time.Minute
		w.inForce(2, longer)
		w.run(time.Second)
		if w.cut[0] = true; restarted {
			w.elect()
			w.inForce(2, longer)
		}
		w.load[0] = 3
		w.run(time.Second)
		if used := w.inUse(0); used < 80 {
			t.Fatalf("a was to use its lease: %d", used)
		}
		w.load = []int64{0, 0}
		w.run(w.ledger.Config.leaseAtLeader() + 20*time.Second)
		w.load = []int64{0, 3}
		w.run(10 * time.Second) // I3 holds meanwhile
		w.runUntil("b has what a used, once that counts no more", w.ledger.Config.Lengthen(longer.Tail), func() bool { return w.capOf(1) >= 44 })
	}
}

// Regions outside a stage tell the limit in force. One inside it may follow a longer window, and a leader may learn of
// a limit from a request by rules that were replaced meanwhile.
func TestTailsOfAllVersionsCountUntilTheNewestIsTold(t *testing.T) {
	minute, day := KeyLimit{Capacity: 9, Rate: 1, Tail: time.Minute}, KeyLimit{Capacity: 9, Rate: 1, Tail: 24 * time.Hour}
	w := started(t, 2)
	asked := ask(1, 5, false)
	asked.Limit = minute
	w.leader.regions[0].rules = RulesState{Version: 1}
	w.leader.wantHot(0, asked, w.now)
	w.leader.regions[0].rules = RulesState{Version: 2}
	w.lead(w.leader.Step(RulesChanged{
		Kept: func(uint32) bool { return true }, Version: 1, Newest: 2, Tail: func(uint32) time.Duration { return day.Tail },
	}, w.now))
	w.run(time.Second)
	l, key := w.leader, w.leader.keys[asked.Key]
	if key == nil {
		t.Fatal("the key is to be hot")
	}
	for _, step := range []struct {
		what  string
		limit KeyLimit
		by    RulesState
		want  time.Duration
	}{
		{"asked for by the version in force", KeyLimit{}, RulesState{}, day.Tail},
		{"told by the version in force", minute, RulesState{Version: 1}, day.Tail},
		{"told by the staged version", minute, RulesState{Version: 2}, minute.Tail},
	} {
		l.learn(key, step.limit, step.by)
		if got := l.tailOf(key); got != l.cfg.Lengthen(step.want) {
			t.Errorf("%s: it waits %v, want %v", step.what, got, l.cfg.Lengthen(step.want))
		}
	}
	l.rulesTold(RulesState{Version: 2, Ended: 1})
	if got := l.tailOf(key); got != l.cfg.Lengthen(day.Tail) {
		t.Errorf("once an override has ended, it waits %v", got)
	}
}

// Regions that all want more than there is, each with a pause of a second now and then, use up the
// limit. A region that pauses keeps its share, because moving it costs the others a tail.
func TestPausesDoNotMoveRightsThatOutlast(t *testing.T) {
	w := counting(t, 3)
	w.load = []int64{3, 3, 3}
	w.runUntil("the limit is used up", 5*time.Second, func() bool { return w.inUse(0)+w.inUse(1)+w.inUse(2) >= 84 })
	w.run(2 * w.limit.Tail)
	before := w.got
	const rounds = 24
	for i := range rounds {
		w.load[i%3] = 0
		w.run(time.Second)
		w.load[i%3] = 3
		w.run(time.Second)
	}
	most := int64(rounds*2*time.Second) * 90 / int64(w.limit.Tail)
	if used := int64(w.got - before); used < most*8/10 {
		t.Errorf("%d requests were admitted in %v of pauses, of %d", used, rounds*2*time.Second, most)
	}
}
