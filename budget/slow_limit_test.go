package budget

import (
	"testing"
	"time"
)

// aSlowLimit returns a world whose regions are far from the leader, with a limit of a hundred requests a
// period.
func aSlowLimit(t *testing.T, period time.Duration, far ...time.Duration) *world {
	w := newWorld(t, len(far))
	w.limit = KeyLimit{Capacity: 100 * microToken, Rate: 100 * microToken / int64(period/time.Second)}
	w.far, w.quorum = far, 10*time.Millisecond
	w.elect()
	w.runUntil("every region holds a lease", 5*time.Second, w.allLive)
	for i, r := range w.ledger.Config.Regions {
		w.bank[i] = Scale(w.limit.Capacity, r.Floor.Burst)
	}
	return w
}

// ask lets region a be asked once in so many ticks, a hundred times in all. It returns how many requests
// were refused, and how long after the first refusal the region held all that others do not keep.
func (w *world) ask(every int64) (refused int64, took time.Duration) {
	var first, all Instant
	w.every, w.load[0] = every, 1
	for asked, before := int64(0), w.got; asked < 100; {
		w.run(tick)
		if every > 1 && w.ticks%every != 0 {
			continue
		}
		asked++
		if refused = asked - (w.got - before); refused > 0 && first == 0 {
			first = w.now
		}
		if all == 0 && w.rate(0) > 900 {
			all = w.now
		}
	}
	switch {
	case first == 0:
		return 0, 0
	case all == 0:
		return refused, time.Hour
	}
	return refused, max(all.Sub(first), 0)
}

// Two requests are kept by the other regions, one each. Beyond them a client is refused no longer than
// the shares take to come.
func TestAClientInOneRegionGetsAllOfASlowLimit(t *testing.T) {
	for _, period := range []time.Duration{time.Minute, time.Hour} {
		for _, c := range []struct {
			every int64
			most  int64
		}{{1, 32}, {2, 17}, {10, 2}, {20, 2}} {
			far := 40 * time.Millisecond
			w := aSlowLimit(t, period, far, far, far)
			if refused, took := w.ask(c.every); refused > c.most || took > 600*time.Millisecond {
				t.Errorf("100 requests in %v, one in %v: %d are refused, the rest comes %v after the first refusal", period, time.Duration(c.every)*tick, refused, took)
			}
		}
	}
}

// The part of a region that is far comes later than the first one. Nothing holds it back then.
func TestTheSecondPartOfASlowLimitFollowsAtOnce(t *testing.T) {
	w := aSlowLimit(t, time.Hour, 10*time.Millisecond, 0, 90*time.Millisecond)
	if refused, took := w.ask(1); took > 800*time.Millisecond {
		t.Errorf("%d are refused, and the rest comes %v after the first refusal", refused, took)
	}
}

// A region that has used some of its bucket keeps its floor while another one refuses requests, until
// its demand can be measured.
func TestARegionThatUsesASlowLimitKeepsItsFloor(t *testing.T) {
	w := aSlowLimit(t, time.Hour, 0, 0, 0)
	w.bank[1] -= 3 * microToken
	w.load[0] = 1
	w.runUntil("a has what c does not use", 3*time.Second, func() bool { return w.rate(0) > 600 })
	for range 50 {
		w.run(tick)
		if w.rate(1) < 333 {
			t.Fatalf("b holds %d per mille", w.rate(1))
		}
	}
}

func TestWhatIsUntouched(t *testing.T) {
	third := Share{Unit / 3, Unit / 3}
	full := Scale(100*microToken, third.Burst)
	minute := KeyLimit{Capacity: 100 * microToken, Rate: 100 * microToken / 60}
	fast := KeyLimit{Capacity: 100 * microToken, Rate: 100 * microToken}
	counts := KeyLimit{Capacity: 100 * microToken, Rate: 100 * microToken / 60, Tail: time.Minute}
	for _, c := range []struct {
		what  string
		rep   KeyReport
		limit KeyLimit
		want  bool
	}{
		{"a full bucket", KeyReport{Share: third, Tokens: full}, minute, true},
		{"one that is rounded down", KeyReport{Share: third, Tokens: full - 3}, minute, true},
		{"one that lacks a request", KeyReport{Share: third, Tokens: full - microToken}, minute, false},
		{"one with extra tokens", KeyReport{Share: third, Tokens: full + 1}, minute, false},
		{"one that was asked", KeyReport{Share: third, Tokens: full, Offered: microToken}, minute, false},
		{"one that refused requests before", KeyReport{Share: third, Tokens: full, Rejecting: true}, minute, false},
		{"no share", KeyReport{}, minute, false},
		{"one that fills at once", KeyReport{Share: third, Tokens: full}, fast, false},
		{"a counting limit", KeyReport{Share: third, Tokens: full}, counts, false},
		{"a limit that nobody has reported", KeyReport{Share: third}, KeyLimit{}, false},
	} {
		if got := untouched(&c.rep, c.limit); got != c.want {
			t.Errorf("%s: untouched is %v", c.what, got)
		}
	}
}

// A check may wait for what a refusal of a slow limit moves, so the leader plans at once.
// What no region holds of a slow limit may move at any time, because it is taken from nobody.
func TestThePoolMovesWithoutCredit(t *testing.T) {
	w := newWorld(t, 3)
	w.elect()
	in := three(wanting(100), wanting(0), wanting(0))
	in.Regions[0].Tokens = 150 * microToken // enough for now
	part := func(percent int32) Share { return Share{percent * Unit / 100, percent * Unit / 100} }
	in.Regions[0].Now, in.Regions[1].Now, in.Regions[2].Now = part(60), part(3), part(3)
	target := []Share{part(90), part(3), part(3)}
	key := &leaderKey{moved: w.now, limit: KeyLimit{Capacity: 300 * microToken, Rate: 5 * microToken}}
	if !w.leader.worthMoving(key, in, target, w.now) {
		t.Error("the pool does not move")
	}
	in.Regions[1].Now = part(33)
	if w.leader.worthMoving(key, in, target, w.now) {
		t.Error("a share that no region waits for moves at once")
	}
}

// A check of a slow limit waits for what is elsewhere where it is likely to come soon.
func TestWhatIsElsewhere(t *testing.T) {
	w := newWorld(t, 3)
	w.elect()
	w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
	slow := KeyLimit{Capacity: 100 * microToken, Rate: 100 * microToken / 60}
	fast, split, small := slow, slow, slow
	fast.Rate, split.Placement, small.Capacity = 100*microToken, PlacementSplit, 20*microToken
	r, cold := w.regions[0], w.regions[0].Right(w.key, slow, w.now)
	hot := func(percent int32) Right {
		right := cold
		right.Hot, right.Share = true, Share{percent * Unit / 100, percent * Unit / 100}
		return right
	}
	silent := cold
	silent.Phase = Limbo
	for _, c := range []struct {
		what           string
		right          Right
		limit          KeyLimit
		begun, elastic bool
		want           bool
	}{
		{"a cold key", cold, slow, false, false, true},
		{"a cold key of a region that hears no leader", silent, slow, false, false, false},
		{"a cold key whose whole burst was here", cold, slow, false, true, false},
		{"a cold key that earns a request soon", cold, fast, false, false, false},
		{"a cold key whose rule wants it split", cold, split, false, false, false},
		{"a key that has been hot for long", hot(33), slow, false, false, false},
		{"a key that has just become hot", hot(33), slow, true, false, true},
		{"a key of which a part has come", hot(65), slow, true, false, true},
		{"a key of which all has come", hot(98), slow, true, false, false},
		{"a key whose floor is lent", hot(2), slow, false, false, true},
		{"a key with a home elsewhere", hot(0), small, false, false, true},
		{"a key that is at home", hot(100), small, false, false, false},
	} {
		if got := r.Elsewhere(c.right, c.limit, c.begun, c.elastic); got != c.want {
			t.Errorf("%s: elsewhere is %v", c.what, got)
		}
	}
}
