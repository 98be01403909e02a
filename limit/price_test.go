package limit

import (
	"slices"
	"testing"
)

// Each limit of a request may have a cost of its own; all of them or none are charged.
func TestCostOfItsOwn(t *testing.T) {
	now := 104 * tick
	own := edited(hotView(SlidingLog), func(v *View) { v.Cost, v.Share = 30*Token, rights(90) })
	views := []View{{Floor: of(10, 1), Phase: Live, Until: MaxExact, Stamp: testStamp}, own}
	records := []Record{{}, {Hot: true, Stamp: testStamp, Gen: own.Gen, Share: own.Share, At: 1}}
	out := make([]Outcome, 2)
	for i := range int64(3) {
		if !Take(records, views, 2*Token, now, out) {
			t.Fatalf("request %d: %+v", i, out)
		}
		if out[0].Tokens != of(8-2*i, 0).Cap || out[1].Tokens != of(60-30*i, 0).Cap {
			t.Fatalf("request %d: %+v", i, out)
		}
	}
	if Take(records, views, 2*Token, now, out) || out[0].Tokens != 4*Token || out[1].Retry != testWindow {
		t.Fatalf("a fourth: %+v", out)
	}
	if views[1].Cost = 0; Take(records, views, 2*Token, now, out) {
		t.Fatal("the cost of the request counts where there is no other")
	}
}

// A log remembers no more than MaxEntries admissions each by itself, and the rest no
// shorter than it should.
func TestLogIsBounded(t *testing.T) {
	v := hotView(SlidingLog)
	v.Share = rights(1000)
	r := Record{Hot: true, Stamp: testStamp, Gen: v.Gen, Share: v.Share, At: 1}
	now := 100 * tick
	for range 2 * MaxEntries {
		now++
		if !Take([]Record{r}, []View{v}, 1, now, make([]Outcome, 1)) {
			t.Fatal("denied")
		}
		records := []Record{r}
		Take(records, []View{v}, Token/2, now, make([]Outcome, 1))
		r = records[0]
	}
	entries := r.Use.Entries
	if len(entries) != MaxEntries || !slices.IsSortedFunc(entries, func(a, b Entry) int { return int(a.Until - b.Until) }) {
		t.Fatalf("%d entries", len(entries))
	}
	if last := entries[MaxEntries-1]; last.Until != now+testWindow || r.Use.inUse(&v, now) != MaxEntries*Token {
		t.Errorf("%+v, %d in use", last, r.Use.inUse(&v, now))
	}
	v.Debit = Token
	slots := Record{Hot: true, Stamp: testStamp, Gen: v.Gen, Share: v.Share, At: 1, Use: r.Use}
	later, _, _ := Settle(slots, v, now+1)
	if n := len(later.Use.Entries); n != MaxEntries {
		t.Errorf("%d entries with a debit", n)
	}
}

// No wait is told for a cost above the share, and none ends before what counts meanwhile.
func TestRetryOfWhatIsNotKnown(t *testing.T) {
	now := 104 * tick
	for _, a := range counted {
		v := hotView(a)
		v.Debit = 85 * Token // admitted just now, elsewhere
		lost := []Record{{}}
		out := make([]Outcome, 1)
		if Take(lost, []View{v}, 10*Token, now, out) || !out[0].Amnesia {
			t.Fatalf("%v: %+v", a, out)
		}
		later := now + 5*tick
		v.Debit = 10 * Token
		Take(lost, []View{v}, 10*Token, later, out)
		v.Debit = 0
		checkRetry(t, lost[0], v, 10*Token, later, out[0].Retry)
		if Take(lost, []View{v}, 91*Token, later, out); out[0].Retry != -1 {
			t.Errorf("%v: a cost above the share: retry in %d", a, out[0].Retry)
		}
	}
	v := hotView(FixedWindow)
	r, _ := Apply(used(t, v, 80, now), Change{View: v, Gen: 6, Share: rights(200)}, now)
	v.Gen, v.Share = 6, rights(200)
	out := make([]Outcome, 1)
	for cost, want := range map[Tokens]int64{150 * Token: 6 * tick, 201 * Token: -1} {
		if Take([]Record{r}, []View{v}, cost, now, out); out[0].Retry != want {
			t.Errorf("held, cost %d: retry in %d", cost, out[0].Retry)
		}
	}
}

// A record is kept for as long as anything in it counts, also if the window is shorter
// now than it was.
func TestKeepOfAShorterWindow(t *testing.T) {
	for _, a := range [...]Algorithm{SlidingLog, Concurrency} {
		v := hotView(a)
		r := used(t, v, 20, 104*tick)
		v.Window = tick
		if keep := r.Keep(&v); keep*1000 <= testWindow {
			t.Errorf("%v: kept for %d ms", a, keep)
		}
	}
}
