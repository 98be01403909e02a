package budget

import (
	"math"
	"testing"
	"time"
)

func started(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.elect()
	w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
	for i, r := range w.ledger.Config.Regions {
		w.bank[i] = Scale(w.limit.Capacity, r.Floor.Burst) // nobody has spent anything yet
	}
	return w
}

func TestLoneBusyRegionGetsAllButWhatOthersKeep(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10 // 500/s offered at a limit of 100/s
	w.runUntil("a holds 98.6 % of the rate", 3*time.Second, func() bool { return w.rate(0) >= 986 })
	if w.rate(1) != 6 || w.rate(2) != 6 {
		t.Errorf("idle regions keep %d and %d per mille, want their connected floor of 6", w.rate(1), w.rate(2))
	}
}

func TestEvenLoadKeepsTheFloors(t *testing.T) {
	w := started(t, 3)
	w.load = []int64{10, 10, 10}
	w.run(5 * time.Second)
	for i := range w.regions {
		if w.rate(i) < 333 || w.rate(i) > 334 {
			t.Errorf("region %d has %d per mille of a limit that all three use up", i, w.rate(i))
		}
	}
}

func TestSharesFollowTheDemand(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.load = []int64{0, 10, 0}
	w.runUntil("b has the rate", 2*time.Second, func() bool { return w.rate(1) >= 950 })
	w.load = []int64{10, 10, 0}
	w.runUntil("a and b have half each", 2*time.Second, func() bool { return w.rate(0) >= 480 && w.rate(1) >= 480 })
}

func TestNobodyIsStarvedByAFlood(t *testing.T) {
	w := started(t, 3)
	w.load = []int64{1000, 0, 0} // 50,000/s
	w.run(3 * time.Second)
	w.load[1] = 1 // 50/s of a limit of 100/s
	w.runUntil("b has what it asks for", 2*time.Second, func() bool { return w.rate(1) >= 480 })
}

func TestUnusedKeyBecomesColdAgain(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("the key is hot", 2*time.Second, func() bool { return w.ledger.Len() == 1 })
	w.run(2 * time.Second)
	w.load[0] = 0
	w.runUntil("the key is cold", 30*time.Second, func() bool { return w.ledger.Len() == 0 })
	for i, r := range w.regions {
		if right := r.Right(w.key, w.limit, w.now); right.Hot {
			t.Errorf("region %d still holds a share of it: %+v", i, right)
		}
	}
	w.load[1] = 10
	w.runUntil("it is hot again, and b has the rate", 4*time.Second, func() bool { return w.rate(1) >= 980 })
}

func TestCutOffRegionReturnsToItsFloorOnlyAfterEveryoneMadeRoom(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.cut[1] = true
	w.runUntil("b's lease has ended", 11*time.Second, func() bool { return w.regions[1].Phase(w.now) == Limbo })
	if w.rate(1) != 6 {
		t.Errorf("a lender in limbo enforces %d per mille, want what it kept", w.rate(1))
	}
	w.runUntil("a has made room", 2*time.Second, func() bool { return w.rate(0) <= 1000-333-6 })
	if w.regions[1].Phase(w.now) == CutOff {
		t.Fatal("b took its floor back before a had made room")
	}
	w.runUntil("b is back at its floor", 12*time.Second, func() bool { return w.rate(1) == 333 })
	if w.rate(0) < 640 {
		t.Errorf("a is left with %d per mille, want 1 - the floor of b - what c keeps", w.rate(0))
	}
	w.cut[1] = false
	w.runUntil("b is live and a has the rate again", 5*time.Second, func() bool {
		return w.regions[1].Phase(w.now) == Live && w.rate(0) >= 980
	})
}

func TestRegionsServeTheirFloorsWithoutCoordinators(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.fall()
	w.run(9 * time.Second)
	if w.rate(0) < 980 {
		t.Errorf("a lost its share while its lease held: %d", w.rate(0))
	}
	w.run(15 * time.Second)
	for i := range w.regions {
		if w.rate(i) != 333 {
			t.Errorf("region %d enforces %d per mille, want its floor", i, w.rate(i))
		}
	}
	w.elect()
	w.runUntil("everything is as before", 25*time.Second, func() bool { return w.allLive() && w.rate(0) >= 980 })
}

func TestUnusedKeyCoolsDownUnderALaterLeader(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("the key is hot", 2*time.Second, func() bool { return w.ledger.Len() == 1 })
	w.run(2 * time.Second)
	w.load[0] = 0
	w.elect() // it learns of the key from the ledger and from Hellos alone
	w.runUntil("the key is cold", 40*time.Second, func() bool { return w.ledger.Len() == 0 })
}

func TestLeaderChangeKeepsTheBudgets(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	before := w.ledger.Shares(w.key)[0]
	w.fall()
	w.run(3 * time.Second)
	w.elect()
	for range 600 {
		w.run(tick)
		if w.rate(0) < 980 {
			t.Fatalf("a's share dipped to %d per mille", w.rate(0))
		}
	}
	if after := w.ledger.Shares(w.key)[0]; after.Rate < before.Rate {
		t.Errorf("a's liability went from %v to %v", before, after)
	}
}

// A region that holds what the ledger says is told nothing, and no lease waits for it to name its
// keys. With a hundred thousand keys that would be seconds of a store's work.
func TestHelloThatAgreesIsAnsweredWithNothing(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.load[0] = 0
	w.run(2 * time.Second)
	w.elect()
	held := Hello{Region: 1, Nonce: 77, Incarnation: w.regions[1].incarnation, RedisEpoch: w.regions[1].storeEpoch}
	h := w.regions[1].hot[w.key]
	held.Held = []Held{{Key: w.key, Gen: h.gen, Share: h.share, Limit: h.limit}}
	out := w.leader.Step(HelloReceived{held}, w.now)
	out = append(out, w.leader.Step(Verified{}, w.now)...)
	for _, effect := range out {
		if welcome, ok := effect.(Welcome); ok {
			if n := len(welcome.OK.Actions); n != 0 {
				t.Errorf("%d actions for one key held as the ledger says", n)
			}
			return
		}
	}
	t.Fatalf("no welcome: %#v", out)
}

// A region that says it holds a share of an earlier generation may have a later one in its store
// without its knowledge: the answer to the change was lost, or another daemon made it. The same
// share comes with a new generation.
func TestHelloOfAnEarlierGenerationIsAnswered(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.run(time.Second)
	before := w.regions[1].hot[w.key]
	earlier := Held{Key: w.key, Gen: before.gen, Share: before.share, Limit: before.limit}
	w.load = []int64{0, 10, 0}
	w.runUntil("b has the rate", 3*time.Second, func() bool { return w.rate(1) >= 950 })
	w.load = []int64{10, 0, 0}
	w.runUntil("b has what it had", 20*time.Second, func() bool {
		return w.regions[1].hot[w.key].share == earlier.Share && w.ledger.Shares(w.key)[1] == earlier.Share
	})
	held := Hello{Region: 1, Nonce: 77, Incarnation: w.regions[1].incarnation, RedisEpoch: w.regions[1].storeEpoch, Held: []Held{earlier}}
	out := w.leader.Step(HelloReceived{held}, w.now)
	out = append(out, w.leader.Step(Verified{}, w.now)...)
	for _, effect := range out {
		if welcome, ok := effect.(Welcome); ok {
			if a := welcome.OK.Actions; len(a) != 1 || !earlier.Gen.Before(a[0].Gen) || a[0].Share != earlier.Share {
				t.Errorf("answered with %+v; want the same share again", a)
			}
			return
		}
	}
	t.Fatal("no welcome")
}

// A shorter lease comes into force when the old one is over. Nothing is proposed before.
func TestNothingIsProposedWhileALongerLeaseRuns(t *testing.T) {
	w := started(t, 2)
	if err := w.ledger.SetTiming(MinLease, w.ledger.Config.RhoPPM); err != nil {
		t.Fatal(err)
	}
	w.elect()
	steps := NewFloorSteps(&w.ledger.Config, w.now)
	steps.SetRules(time.Second, 0)
	for w.now.Sub(w.leader.start) < w.ledger.Config.LeasesOver() {
		if p, due := steps.Due(w.leader, w.now); due {
			l := w.ledger.Clone()
			if err := l.AdvanceFloors(l.Config.Version, p); err != nil {
				t.Fatalf("%v after the change a step is proposed that is refused: %v", w.now.Sub(w.leader.start), err)
			}
			return
		}
		w.run(tick)
	}
}

func TestNewLeaderRenewsNobodyBeforeAllHaveAcknowledged(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.cut[2] = true
	w.renewed = make([]int, 3)
	w.elect()
	w.run(4900 * time.Millisecond)
	if w.renewed[0] != 0 || w.renewed[1] != 0 {
		t.Errorf("leases were renewed during the grace: %v", w.renewed)
	}
	w.runUntil("a is renewed with room for c's floor", 3*time.Second, func() bool { return w.renewed[0] > 0 })
	if w.rate(0) > 1000-333-6 {
		t.Errorf("a was renewed at %d per mille while c's floor is reserved", w.rate(0))
	}
}

func TestSecondDaemonWaitsForTheFirstToFallSilent(t *testing.T) {
	w := started(t, 3)
	again := NewRegion(1, w.ledger.Config, 99, w.now)
	again.Step(StoreEpoch{"epoch-b"}, w.now)
	hello := again.Step(RegionTick{}, w.now)[0].(SendHello).Hello
	out := w.leader.Step(HelloReceived{hello}, w.now)
	if r, ok := out[len(out)-1].(Refuse); !ok || r.Err != ErrRegionBusy {
		t.Fatalf("a second daemon of a live region got %#v", out)
	}
	w.cut[1] = true
	w.run(busyAfter + time.Second)
	hello.Nonce++
	out = w.leader.Step(HelloReceived{hello}, w.now)
	if _, ok := out[len(out)-1].(Verify); !ok {
		t.Fatalf("it was answered without a proof of leadership: %#v", out)
	}
	out = w.leader.Step(Verified{}, w.now)
	if _, ok := out[0].(Welcome); !ok {
		t.Fatalf("it was not welcome after three silent reports: %#v", out)
	}
}

func TestReportsOutOfOrderCloseTheSession(t *testing.T) {
	w := started(t, 2)
	r := &w.leader.regions[0]
	rep := Report{Region: 0, Epoch: w.leader.epoch, Session: r.session, Seq: r.seq + 5, Ack: r.seq + 4}
	out := w.leader.Step(ReportReceived{rep}, w.now)
	refused := out[len(out)-1].(Refuse)
	if refused.Err != ErrSessionClosed || w.leader.regions[0].open {
		t.Errorf("a gap was not refused: %#v", out)
	}
}

func TestMalformedReportsAreRefusedWhole(t *testing.T) {
	for name, kr := range map[string]KeyReport{
		"negative admitted":          {Key: KeyID{Rule: 1}, Admitted: -1},
		"more admitted than offered": {Key: KeyID{Rule: 1}, Admitted: 2, Offered: 1},
		"negative tokens":            {Key: KeyID{Rule: 1}, Tokens: -5},
		"negative limit":             {Key: KeyID{Rule: 1}, Limit: KeyLimit{Rate: -1}},
		"impossible limit":           {Key: KeyID{Rule: 1}, Limit: KeyLimit{Rate: math.MaxInt64}},
	} {
		t.Run(name, func(t *testing.T) {
			w := started(t, 2)
			r := &w.leader.regions[0]
			if r.waiting {
				w.lead(w.leader.ReleaseAll(w.now))
			}
			l := w.leader
			rep := Report{Region: 0, Epoch: l.epoch, Session: l.regions[0].session, Seq: l.regions[0].seq + 1, Ack: l.regions[0].seq, Keys: []KeyReport{{Key: KeyID{Rule: 7}}, kr}}
			l.regions[0].waiting = false
			out := l.Step(ReportReceived{rep}, w.now)
			if _, ok := out[len(out)-1].(Refuse); !ok {
				t.Fatalf("accepted: %#v", out)
			}
			if len(l.creates) != 0 {
				t.Error("part of a refused report was folded in")
			}
		})
	}
}

func TestDroppedRuleLeavesNoKeys(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("the key is hot", 2*time.Second, func() bool { return w.ledger.Len() == 1 })
	w.load[0] = 0
	w.ledger.DropRules(func(uint32) bool { return false })
	w.lead(w.leader.Step(RulesChanged{Kept: func(uint32) bool { return false }}, w.now))
	w.run(time.Second)
	for i, r := range w.regions {
		if r.Info(w.now).HotKeys != 0 {
			t.Errorf("region %d still holds a key of the dropped rule", i)
		}
	}
}

func TestReleasedTokensReachTheRegionThatGrows(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 800*time.Millisecond, func() bool { return w.rate(0) >= 980 })
	if w.released < 190*microToken {
		t.Fatalf("the lenders gave up %d tokens, want nearly all of 200", w.released/microToken)
	}
	if lost := w.released - w.granted; lost > microToken {
		t.Errorf("%d of %d released tokens did not reach the busy region", lost/microToken, w.released/microToken)
	}
}

// A region that never had a request of a key has to release its tokens by the key's limit, which it
// cannot look up.
func TestAShareComesWithItsLimit(t *testing.T) {
	w := lent(t)
	for i, r := range w.regions {
		if h := r.hot[w.key]; h.limit != w.limit {
			t.Errorf("region %d, which was asked for %d requests a tick, takes the limit for %+v", i, w.load[i], h.limit)
		}
	}
}

// A client of a slow limit that rotates over the regions looks idle in each of them most of the
// time. It must neither starve nor move the shares back and forth.
func TestSparseRotationDoesNotOscillate(t *testing.T) {
	w := started(t, 3)
	w.limit = KeyLimit{Capacity: 60 * microToken, Rate: 2 * microToken}
	w.load, w.every = []int64{1, 1, 1}, 25 // two requests a second in each region
	for i := range w.bank {
		w.bank[i] = 20 * microToken
	}
	w.run(10 * time.Second)
	before := w.leader.stats.ShareChanges
	w.run(40 * time.Second)
	if changes := w.leader.stats.ShareChanges - before; changes > 8 {
		t.Errorf("%d share changes in 40 s of steady demand", changes)
	}
	const bound = 60 + 2*50
	if w.got > bound || w.got < bound*95/100 {
		t.Errorf("admitted %d of %d", w.got, bound)
	}
}

// A growth that waits to be sent may be replaced by a smaller share. Its tokens return to the pool,
// because nothing covers them any more.
func TestTokensOfAReplacedGrowthGoBack(t *testing.T) {
	w := newWorld(t, 2)
	w.elect()
	w.load[0] = 3
	w.run(3 * time.Second)
	l, key := w.leader, w.leader.keys[w.key]
	kr := &key.regions[0]
	key.pool = 5 * microToken
	l.grow(growth{key: w.key, region: 0, from: kr.gen, share: Share{Rate: Unit, Burst: Unit}, grant: key.takeFromPool(Unit)})
	if kr.grant != 5*microToken || key.pool != 0 {
		t.Fatalf("the growth has %d micro-tokens, the pool %d", kr.grant, key.pool)
	}
	l.queueAction(0, key, Share{Rate: Unit / 2, Burst: Unit / 2})
	if kr.grant != 0 || key.pool != 5*microToken {
		t.Fatalf("the smaller share has %d micro-tokens, the pool %d", kr.grant, key.pool)
	}
}
