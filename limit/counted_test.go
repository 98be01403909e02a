package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var counted = slices.DeleteFunc(Algorithms(), func(a Algorithm) bool { return !a.Counts() })

// admission is one line of the naive book that the tests keep.
type admission struct {
	at   int64
	cost Tokens
	slot uint64
}

// byDefinition is what counts at now, straight from the definition of the algorithm.
func byDefinition(a Algorithm, window, now int64, book []admission) Tokens {
	var cur, prev, all Tokens
	for _, x := range book {
		switch {
		case a == SlidingLog || a == Concurrency:
			if x.at+window > now {
				all += x.cost
			}
		case x.at/window == now/window:
			cur += x.cost
		case x.at/window == now/window-1:
			prev += x.cost
		}
	}
	switch a {
	case FixedWindow:
		return cur
	case SlidingCounter:
		left := Tokens(window - now%window)
		return cur + (prev*left+Tokens(window)-1)/Tokens(window)
	default:
		return all
	}
}

// What was admitted before Since counts no more, and what was admitted after it does.
func TestSince(t *testing.T) {
	const window = 1000
	for _, a := range counted {
		l := Limit{Algorithm: a, Window: window * time.Microsecond}
		for now := int64(5 * window); now < 7*window; now++ {
			since := l.Since(now)
			before := byDefinition(a, window, now, []admission{{at: since - 1, cost: Token}})
			after := byDefinition(a, window, now, []admission{{at: min(since+1, now), cost: Token}})
			if before != 0 || after == 0 {
				t.Fatalf("%v at %d, since %d: %d before it counts, %d after it", a, now, since, before, after)
			}
		}
	}
}

// Slots that were given out without the store are in use once, however often they are named, until each has ended or is
// released; a request finds what they leave.
func TestSlotsHeld(t *testing.T) {
	v := View{Algorithm: Concurrency, Window: 1000, Stamp: 7, Floor: Bucket{Cap: 5 * Token}, Phase: Live, Until: MaxExact}
	r := Record{}
	take := func(now int64, slot uint64, held []HeldSlot, allowed bool, left Tokens) {
		t.Helper()
		v.Slot, v.Held = slot, held
		records, out := []Record{r}, make([]Outcome, 1)
		if got := Take(records, []View{v}, Token, now, out); got != allowed || out[0].Tokens != left*Token {
			t.Errorf("at %d slot %d: %v with %d left, want %v with %d", now, slot, got, out[0].Tokens/Token, allowed, left)
		}
		r = records[0]
	}
	held := []HeldSlot{{Slot: 8, Cost: 2 * Token, Lasts: 300}, {Slot: 9, Cost: Token, Lasts: 1500}}
	take(100, 1, held, true, 1)
	take(200, 2, held, true, 0)
	take(300, 3, held, false, 0)
	if r.Keep(&v) < 1300/1000+1001 {
		t.Errorf("kept for %d ms", r.Keep(&v))
	}
	r, freed := Release(r, 9)
	if freed != Token {
		t.Errorf("freed %d", freed)
	}
	take(350, 4, held[:1], true, 0)
	take(401, 5, nil, true, 1) // the two of slot 8 have ended
	take(402, 5, []HeldSlot{{Slot: 10, Cost: 5 * Token, Lasts: 10}}, false, -4)
	take(413, 6, nil, true, 0)
	take(414, 6, nil, false, 0)
	r, _ = Release(r, 1)
	if take(415, 6, nil, true, 0); r.Use.known(&v, 415) != 4*Token {
		t.Errorf("a slot that was entered before its request counts twice: %+v", r.Use)
	}
}

// Every algorithm admits what its definition says, says what is left, and knows to the
// microsecond when it would admit what it denied, and when nothing counts any more.
func TestCountedByDefinition(t *testing.T) {
	const window = 1000
	for _, a := range counted {
		t.Run(a.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(a)))
			denied := 0
			for range 200 {
				most := Tokens(1 + rng.IntN(12))
				v := View{
					Hot: true, Gen: 5, Algorithm: a, Window: window, Stamp: 7,
					Share: Bucket{Cap: most}, Floor: Bucket{Cap: most}, Phase: Live, Until: MaxExact,
				}
				r := Record{Hot: true, Stamp: 7, Gen: 5, Share: v.Share, At: 1}
				now, slot := int64(1+rng.IntN(5000)), uint64(0)
				var book []admission
				for range 60 {
					now += rng.Int64N(window) * rng.Int64N(3) / 4
					slot++
					v.Slot = slot
					cost := Tokens(1 + rng.IntN(4))
					before := byDefinition(a, window, now, book)
					records, out := []Record{r}, make([]Outcome, 1)
					ok := Take(records, []View{v}, cost, now, out)
					if want := before+cost <= most; ok != want {
						t.Fatalf("at %d, %d in use of %d, cost %d: allowed %v", now, before, most, cost, ok)
					}
					if ok {
						book = append(book, admission{now, cost, slot})
					} else {
						denied++
						checkRetry(t, records[0], v, cost, now, out[0].Retry)
					}
					r = records[0]
					if left := max(0, most-byDefinition(a, window, now, book)); out[0].Tokens != left || out[0].Bucket.Cap != most {
						t.Fatalf("at %d: %+v, %d are left of %d", now, out[0], left, most)
					}
					if at := now + out[0].Reset; byDefinition(a, window, at, book) != 0 || out[0].Reset > 0 && byDefinition(a, window, at-1, book) == 0 {
						t.Fatalf("at %d: reset in %d", now, out[0].Reset)
					}
					if a == Concurrency && len(book) > 0 && rng.IntN(3) == 0 {
						i := rng.IntN(len(book))
						counts := book[i].at+window > now
						released, freed := Release(r, book[i].slot)
						if counts != (freed == book[i].cost) {
							t.Fatalf("at %d: released %d of %+v", now, freed, book[i])
						}
						r, book = released, append(book[:i:i], book[i+1:]...)
					}
				}
			}
			if denied < 1000 {
				t.Errorf("only %d denials", denied)
			}
		})
	}
}

// checkRetry asks again at the time told, and a microsecond before.
func checkRetry(t *testing.T, r Record, v View, cost Tokens, now, retry int64) {
	t.Helper()
	try := func(at int64) bool {
		return Take([]Record{r}, []View{v}, cost, at, make([]Outcome, 1))
	}
	switch {
	case cost > v.Share.Cap:
		if retry != -1 {
			t.Fatalf("cost %d of %d: retry in %d", cost, v.Share.Cap, retry)
		}
	case retry <= 0 || !try(now+retry) || try(now+retry-1):
		t.Fatalf("at %d, cost %d of %d: retry in %d; then %v, just before %v; use %+v",
			now, cost, v.Share.Cap, retry, try(now+retry), try(now+retry-1), *r.Use)
	}
}

const (
	testWindow = 10 * tick
	testStamp  = 7
)

func rights(n int64) Bucket { return Bucket{Cap: Tokens(n) * Token} }

// hotView has a share of 90, a floor of 30.
func hotView(a Algorithm) View {
	return View{
		Hot: true, Gen: 5, Algorithm: a, Window: testWindow, Share: rights(90), Floor: rights(30),
		Phase: Live, Until: 1000 * tick, Stamp: testStamp,
	}
}

// used is a record that admitted an amount at once.
func used(t *testing.T, v View, tokens, at int64) Record {
	t.Helper()
	r := Record{Hot: v.Hot, Stamp: testStamp, At: at, Gen: v.Gen}
	if v.Hot {
		r.Share = v.Share
	}
	v.Slot = 99
	records := []Record{r}
	if !Take(records, []View{v}, Tokens(tokens)*Token, at, make([]Outcome, 1)) {
		t.Fatalf("%d tokens are too many", tokens)
	}
	return records[0]
}

// A share that shrinks below what is in use is in force at once; Due says until when
// it must not be acknowledged, and asking again changes nothing.
func TestApplyCountedLate(t *testing.T) {
	due := map[Algorithm]int64{
		FixedWindow:    6 * tick,       // the window ends
		SlidingCounter: 12*tick + tick, // 80 of the window before fade to 24 when 7 of 10 s are over
		SlidingLog:     10 * tick,
		Concurrency:    10 * tick,
	}
	for _, a := range counted {
		t.Run(a.String(), func(t *testing.T) {
			v, now := hotView(a), 104*tick
			r := used(t, v, 80, now)
			c := Change{View: v, Gen: 6, Share: rights(24)}
			r, got := Apply(r, c, now)
			if got.InUse != 80*Token || got.Due != due[a] || got.Tokens != 0 || got.Stale || got.Released != 0 {
				t.Fatalf("%+v", got)
			}
			later := v
			later.Gen, later.Share = 6, c.Share
			if Take([]Record{r}, []View{later}, Token, now, make([]Outcome, 1)) {
				t.Error("admitted above the new share")
			}
			c.View = later
			for _, x := range []struct {
				at   int64
				over bool
			}{{now + got.Due/2, true}, {now + got.Due - 1, true}, {now + got.Due, false}} {
				same, again := Apply(r, c, x.at)
				if over := again.InUse > c.Share.Cap; over != x.over || over != (again.Due > 0) || again.Stale {
					t.Errorf("after %d µs: %+v", x.at-now, again)
				}
				if same.Gen != 6 || same.Share != c.Share {
					t.Errorf("asking again wrote %+v", same)
				}
			}
			if _, older := Apply(r, Change{View: v, Gen: 5, Share: rights(90)}, now); !older.Stale {
				t.Error("an older share was applied")
			}
		})
	}
}

// A share that grows in mid-window counts at once only from the window that the leader
// names on.
func TestApplyFixedWindowFrom(t *testing.T) {
	now := 104 * tick // label 11
	grow := func(from int64) (Record, View) {
		v := hotView(FixedWindow)
		r, a := Apply(used(t, v, 80, now), Change{View: v, Gen: 6, Share: rights(200), From: from}, now)
		if a.Label != 11 {
			t.Fatalf("label %d", a.Label)
		}
		v.Gen, v.Share = 6, rights(200)
		return r, v
	}
	room := func(r Record, v View, at int64) int64 {
		out := make([]Outcome, 1)
		Take([]Record{r}, []View{v}, 1000*Token, at, out)
		return int64(out[0].Tokens / Token)
	}
	for _, x := range []struct{ from, now, later int64 }{{0, 10, 200}, {12, 10, 200}, {11, 120, 200}, {10, 120, 200}} {
		r, v := grow(x.from)
		if a, b := room(r, v, now), room(r, v, 110*tick); a != x.now || b != x.later {
			t.Errorf("from %d: %d are left now and %d in the next window", x.from, a, b)
		}
	}
	r, v := grow(0)
	out := make([]Outcome, 1)
	if Take([]Record{r}, []View{v}, 50*Token, now, out); out[0].Retry != 6*tick {
		t.Errorf("retry in %d", out[0].Retry)
	}
	// A second growth in the same window still counts from what there was at first,
	// unless it may count at once; a shrink is in force as ever.
	if again, a := Apply(r, Change{View: v, Gen: 7, Share: rights(250)}, now); a.Tokens != 10*Token {
		t.Errorf("grown again: %+v, %+v", a, again.Use)
	}
	if _, a := Apply(r, Change{View: v, Gen: 7, Share: rights(250), From: 11}, now); a.Tokens != 170*Token {
		t.Errorf("grown at once: %+v", a)
	}
	if _, a := Apply(r, Change{View: v, Gen: 7, Share: rights(85)}, now); a.Tokens != 5*Token {
		t.Errorf("shrunk: %+v", a)
	}
}

// labelled returns a record whose use is of the window of its At.
func labelled(r Record) Record {
	if use := *r.Use; use.Window != 0 {
		use.Label = use.LabelOf(r.At)
		r.Use = &use
	}
	return r
}

// Where memory was lost nothing is admitted until nothing admitted before can count.
func TestSettleCountedAmnesia(t *testing.T) {
	for _, a := range counted {
		hot, now := hotView(a), 104*tick
		cold := hot
		cold.Hot, cold.Share = false, Bucket{}
		lasts := tail(a, testWindow)
		reborn := cold
		reborn.Birth = 100 * tick
		record := used(t, hot, 20, 100*tick)
		stranger := record
		stranger.Stamp = 8
		coldRecord := used(t, cold, 20, 100*tick)
		ahead := func(r Record, at int64) Record {
			r.At = at
			return r
		}
		// In the same window a clock that went back changes nothing, in another one nothing is known. A log has forgotten
		// what ended by the time to come.
		back, other := int64(0), now+lasts
		if a.Logs() {
			back, other = 105*tick, 111*tick
		}
		unknown := now + lasts // a fixed window ends with the next one at the latest
		if a == FixedWindow {
			unknown = now - now%cold.Window + 2*cold.Window
		}
		tests := []struct {
			name    string
			r       Record
			v       View
			free    int64 // since when anything can be admitted
			amnesia bool
			most    int64
		}{
			{"absent and cold: nothing in use", Record{}, cold, 0, false, 30},
			{"absent and cold in new contents", Record{}, reborn, 100*tick + lasts, false, 30},
			{"absent and hot", Record{}, hot, unknown, true, 90},
			{"other contents, hot", stranger, hot, unknown, true, 90},
			{"other contents, cold", stranger, reborn, 100*tick + lasts, false, 30},
			{"other contents, cold, birth unknown", stranger, cold, unknown, false, 30},
			{"nonsense", Untrusted(), cold, unknown, false, 30},
			{"the clock went back, cold", ahead(coldRecord, 105*tick), cold, back, false, 10},
			{"the clock went back, cold in new contents", ahead(coldRecord, 105*tick), reborn, back, false, 10},
			{"the clock went back, hot", ahead(record, 105*tick), hot, back, false, 70},
			{"the clock went back to another window", labelled(ahead(coldRecord, 111*tick)), cold, other, false, 30},
			{"the clock went back by a tail", ahead(coldRecord, now+lasts), cold, now + lasts, false, 30},
			{"older than the caller", record, edited(hot, func(v *View) { v.Gen = 6 }), unknown, true, 90},
			{"trusted", record, hot, 0, false, 70},
			{"trusted, cold", coldRecord, cold, 0, false, 10},
		}
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%v: %s", a, tt.name), func(t *testing.T) {
				r, force, amnesia := Settle(tt.r, tt.v, now)
				if amnesia != tt.amnesia || r.At != now || r.Stamp != testStamp {
					t.Fatalf("amnesia %v, %+v", amnesia, r)
				}
				left := func(at int64) int64 {
					r, force, _ := Settle(r, tt.v, at)
					return int64(r.left(&tt.v, force, at) / Token)
				}
				if tt.free == 0 {
					if got := left(now); got != tt.most || force.Cap == 0 {
						t.Errorf("%d left under %+v", got, force)
					}
					return
				}
				if force.Cap != 0 || left(tt.free-1) != -int64(MaxTokens/Token) || left(tt.free) != tt.most {
					t.Errorf("in force %+v; left before %d: %d, then %d", force, tt.free, left(tt.free-1), left(tt.free))
				}
				if keep := r.Keep(&tt.v); r.At+keep*1000 <= tt.free {
					t.Errorf("kept for %d ms", keep)
				}
			})
		}
	}
}

// Phases choose among share and floor as they do for buckets, use stays what it is, and
// what an emergency limit admitted counts.
func TestSettleCountedPhases(t *testing.T) {
	now := 104 * tick
	for _, a := range counted {
		hot := hotView(a)
		r := used(t, hot, 20, now)
		tests := []struct {
			name string
			v    View
			left int64
			cap  int64
		}{
			{"live", hot, 70, 90},
			{"the lease is over", edited(hot, func(v *View) { v.Until = now - 1 }), 10, 30},
			{"limbo", in(hot, Limbo, 0), 10, 30},
			{"limbo of a lender", edited(in(hot, Limbo, 0), func(v *View) { v.Share = rights(3) }), -17, 3},
			{"floor", edited(in(hot, Floor, 90), func(v *View) { v.Share = rights(3) }), 10, 30},
			{"floor, but heard", edited(in(hot, Floor, 90), func(v *View) { v.Share, v.Heard, v.HeardWait = rights(3), 100*tick, 22*tick }), -17, 3},
			{"floor before its time", edited(in(hot, Floor, 105), func(v *View) { v.Share = rights(3) }), -17, 3},
			{"debit", edited(hot, func(v *View) { v.Debit = 15 * Token }), 55, 90},
			{"more debit than there is", edited(hot, func(v *View) { v.Debit = 80 * Token }), -10, 90},
		}
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%v: %s", a, tt.name), func(t *testing.T) {
				got, force, amnesia := Settle(r, tt.v, now)
				if left := got.left(&tt.v, force, now); amnesia || left != Tokens(tt.left)*Token || force.Cap != Tokens(tt.cap)*Token {
					t.Errorf("%d left of %d, amnesia %v", left, force.Cap, amnesia)
				}
			})
		}
	}
}

// A key that returns to cold keeps what is in use, and its generation as a fence.
func TestApplyCountedCold(t *testing.T) {
	for _, a := range counted {
		v, now := hotView(a), 104*tick
		r, got := Apply(used(t, v, 20, now), Change{View: v, Gen: 6, Share: rights(30), Cold: true}, now)
		if r.Hot || r.Gen != 6 || r.Share != (Bucket{}) || got.InUse != 20*Token || got.Tokens != 10*Token {
			t.Errorf("%v: %+v, %+v", a, r, got)
		}
		if again, b := Apply(r, Change{View: v, Gen: 6, Share: rights(30), Cold: true}, now); again.Hot || b.Stale || b.InUse != 20*Token {
			t.Errorf("%v again: %+v, %+v", a, again, b)
		}
		if _, stuck := Apply(r, Change{View: v, Gen: 6, Share: rights(90)}, now); !stuck.Stale {
			t.Errorf("%v: a change that got stuck was made", a)
		}
	}
}

// Use that was counted by windows of another length counts as of now.
func TestCountedWindowChanges(t *testing.T) {
	for _, a := range counted {
		if a.Logs() {
			continue
		}
		v := hotView(a)
		r := used(t, v, 80, 104*tick)
		v.Window = 25 * tick
		got, force, _ := Settle(r, v, 105*tick)
		if left := got.left(&v, force, 105*tick); left != 10*Token {
			t.Errorf("%v: %d left", a, left)
		}
	}
}

// A request under limits of all kinds is charged to each or to none.
func TestTakeMixesAlgorithms(t *testing.T) {
	now := 104 * tick
	views, records := []View{}, []Record{}
	for a := range algorithms {
		v := View{Algorithm: a, Floor: of(10, 1), Phase: Live, Until: MaxExact, Stamp: testStamp}
		if a.Counts() {
			v.Window = testWindow
		}
		views, records = append(views, v), append(records, Record{})
	}
	out := make([]Outcome, len(views))
	for slot := range uint64(2) {
		if views[5].Slot = slot + 1; !Take(records, views, 4*Token, now, out) {
			t.Fatalf("denied: %+v", out)
		}
	}
	views[5].Floor = of(15, 0)
	if Take(records, views, 4*Token, now, out) {
		t.Fatal("allowed what five limits cannot hold")
	}
	for i, o := range out {
		left, wait := 2*Token, o.Retry > 0
		if i == 5 {
			left, wait = 7*Token, o.Retry == 0
		}
		if o.Tokens != left || views[i].Algorithm.Counts() && !wait {
			t.Errorf("%v: %+v", views[i].Algorithm, o)
		}
	}
}

func TestDecideCounted(t *testing.T) {
	l := Limit{Algorithm: SlidingLog, Capacity: 10 * Token, Window: time.Minute}
	denied := func(o Outcome, cost Tokens) Decision { return Decide(l, o, cost, false) }
	if d := denied(Outcome{Tokens: 3 * Token, Retry: 1500, Reset: 2000}, 4*Token); d.RetryAfter != 2*time.Millisecond || d.ResetAfter != 2*time.Millisecond || d.Remaining != 3 || d.Limit != 10 {
		t.Errorf("%+v", d)
	}
	if d := denied(Outcome{Retry: -1}, 10*Token); d.RetryAfter != longestGuess {
		t.Errorf("above the share: %+v", d)
	}
	if d := denied(Outcome{Retry: -1}, 11*Token); d.RetryAfter != Never {
		t.Errorf("above the limit: %+v", d)
	}
	if d := Decide(l, Outcome{Tokens: 9 * Token, Reset: 60_000_000}, Token, true); d.RetryAfter != 0 || d.ResetAfter != time.Minute || d.Delay != 0 {
		t.Errorf("allowed: %+v", d)
	}
}

// A leaky bucket tells a request to wait for what is in the queue before it.
func TestDecideLeaky(t *testing.T) {
	l := Limit{Algorithm: LeakyBucket, Capacity: 10 * Token, Rate: Rate{Micro: 2 * million}}
	v := View{Algorithm: LeakyBucket, Floor: of(10, 2), Phase: Live, Until: MaxExact, Stamp: testStamp}
	records, out := make([]Record, 1), make([]Outcome, 1)
	for i := range 10 {
		ok := Take(records, []View{v}, Token, 100*tick, out)
		if d := Decide(l, out[0], Token, ok); !ok || d.Delay != time.Duration(i)*500*time.Millisecond {
			t.Errorf("request %d: %v, %+v", i, ok, d)
		}
	}
	if ok := Take(records, []View{v}, Token, 100*tick, out); ok {
		t.Error("the queue is longer than it may be")
	}
	if d := Decide(l, out[0], Token, false); d.Delay != 0 || d.RetryAfter != 500*time.Millisecond {
		t.Errorf("denied: %+v", d)
	}
}

func TestTailAndPerSecond(t *testing.T) {
	for _, x := range []struct {
		a    Algorithm
		tail time.Duration
		rate Rate
	}{
		{TokenBucket, 0, Rate{Micro: 5}}, {LeakyBucket, 0, Rate{Micro: 5}},
		{FixedWindow, time.Minute, Rate{Micro: 333_333, Frac: 333_333}},
		{SlidingCounter, time.Minute, Rate{Micro: 333_333, Frac: 333_333}},
		{SlidingLog, 30 * time.Second, Rate{Micro: 333_333, Frac: 333_333}},
		{Concurrency, 30 * time.Second, Rate{Micro: 333_333, Frac: 333_333}},
	} {
		l := Limit{Algorithm: x.a, Capacity: 10 * Token, Rate: Rate{Micro: 5}, Window: 30 * time.Second}
		if l.Tail() != x.tail || l.PerSecond() != x.rate {
			t.Errorf("%v: tail %v, %+v a second", x.a, l.Tail(), l.PerSecond())
		}
	}
}

// in is a view in a phase that began at a second of the store's clock.
func in(v View, p Phase, since int64) View {
	v.Phase, v.Since = p, since*tick
	return v
}
