package limit

import (
	"testing"
	"time"
)

// elastic is a limit of 90 tokens at 9 a second, of which this region's floor is a
// third: its cold bucket holds all 90.
func elastic(hot bool, share Bucket) View {
	v := View{Gen: 5, Floor: of(30, 3), Extra: 60 * Token, Phase: Live, Until: 1000 * tick, Stamp: 7}
	if hot {
		v.Hot, v.Share = true, share
	}
	return v
}

// edited is a copy of a view or a record with a change.
func edited[T any](x T, f func(*T)) T { f(&x); return x }

func TestSettleElastic(t *testing.T) {
	share, small := of(60, 6), of(6, 1)
	cold := elastic(false, Bucket{})
	hot := elastic(true, share)
	rec := func(hot bool, tokens, extra, at int64, share Bucket) Record {
		return Record{Hot: hot, Stamp: 7, Tokens: Tokens(tokens) * Token, Extra: Tokens(extra) * Token, At: at * tick, Gen: 5, Share: share}
	}
	limbo := func(v *View) { v.Phase = Limbo }
	floored := func(v *View) { v.Phase, v.Since = Floor, 100*tick }
	strict := func(v *View) { v.Extra = 0 }

	tests := []struct {
		name          string
		r             Record
		v             View
		now           int64 // seconds
		tokens, extra int64
		enforced      Bucket
	}{
		{"an absent cold bucket holds the whole limit", Record{}, cold, 100, 90, 0, of(30, 3)},
		{"a cold bucket refills at the floor's rate only", rec(false, 0, 0, 90, Bucket{}), cold, 100, 30, 0, of(30, 3)},
		{"up to the whole limit", rec(false, 80, 0, 90, Bucket{}), cold, 100, 90, 0, of(30, 3)},
		{"a cold bucket of a limit that became strict", rec(false, 80, 0, 90, Bucket{}), edited(cold, strict), 100, 30, 0, of(30, 3)},
		{"born 4 s ago after a flush", Record{}, edited(cold, func(v *View) { v.Birth = 96 * tick }), 100, 12, 0, of(30, 3)},
		{"born 20 s ago, more than the floor's capacity", Record{}, edited(cold, func(v *View) { v.Birth = 80 * tick }), 100, 60, 0, of(30, 3)},
		{"hot: extra does not refill", rec(true, 10, 20, 98, share), hot, 100, 22, 20, share},
		{"hot: the share fills beside it", rec(true, 10, 20, 1, share), hot, 100, 60, 20, share},
		{"hot: no more extra than the view says", rec(true, 10, 80, 98, share), hot, 100, 22, 60, share},
		{"hot: a limit that became strict has none", rec(true, 10, 20, 98, share), edited(hot, strict), 100, 22, 0, share},
		{"limbo leaves it, and voids the share's above the floor", rec(true, 50, 20, 99, share), edited(hot, limbo), 100, 30, 20, of(30, 3)},
		{"the floor too", rec(true, 50, 20, 100, share), edited(hot, floored), 101, 30, 20, of(30, 3)},
		{"after a lapse it is still there", rec(true, 50, 20, 99, share), edited(hot, func(v *View) { v.Since = 100 * tick }), 100, 30, 20, share},
		{"amnesia has none", Record{}, hot, 100, 0, 0, share},
		{"nor has a record of other contents", edited(rec(true, 50, 20, 99, share), func(r *Record) { r.Stamp = 8 }), hot, 100, 0, 0, share},
		{"the left-over of a key that has cooled down is one again", rec(true, 2, 20, 98, small), cold, 100, 24, 0, of(30, 3)},
		{"and at most the cold bucket", rec(true, 30, 60, 98, of(30, 3)), edited(cold, func(v *View) { v.Extra = 10 * Token }), 100, 40, 0, of(30, 3)},
		{"a cold view in limbo leaves it", rec(true, 2, 20, 99, small), edited(cold, limbo), 100, 3, 20, small},
		{"a newer record keeps its own", edited(rec(true, 2, 20, 99, small), func(r *Record) { r.Gen = 6 }), cold, 100, 3, 20, small},
		{"a debit takes extra first", rec(true, 10, 20, 100, share), edited(hot, func(v *View) { v.Debit = 15 * Token }), 100, 10, 5, share},
		{"then the share's", rec(true, 10, 20, 100, share), edited(hot, func(v *View) { v.Debit = 25 * Token }), 100, 5, 0, share},
		{"at most to zero", rec(true, 10, 20, 100, share), edited(hot, func(v *View) { v.Debit = 35 * Token }), 100, 0, 0, share},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, enforced, _ := Settle(tt.r, tt.v, tt.now*tick)
			if r.Tokens != Tokens(tt.tokens)*Token || r.Extra != Tokens(tt.extra)*Token {
				t.Errorf("tokens %d, extra %d; want %d and %d whole ones", r.Tokens, r.Extra, tt.tokens, tt.extra)
			}
			if enforced != tt.enforced {
				t.Errorf("enforced %+v, want %+v", enforced, tt.enforced)
			}
			if !r.Hot && r.Extra != 0 {
				t.Errorf("a cold record with extra: %+v", r)
			}
		})
	}
}

func TestApplyElastic(t *testing.T) {
	floor, share := of(30, 3), of(60, 6)
	cold := elastic(false, Bucket{})
	hot := elastic(true, share)
	coldRecord := func(tokens int64) Record {
		return Record{Stamp: 7, Tokens: Tokens(tokens) * Token, At: 100 * tick, Gen: 5}
	}
	hotRecord := Record{Hot: true, Stamp: 7, Tokens: 40 * Token, Extra: 20 * Token, At: 100 * tick, Gen: 5, Share: share}
	tests := []struct {
		name          string
		r             Record
		c             Change
		tokens, extra int64
		released      int64
	}{
		{"escalation sets apart what is above the floor", Record{}, Change{View: cold, Gen: 6, Share: floor}, 30, 60, 0},
		{"extra comes first: the floor's part is spent before it", coldRecord(70), Change{View: cold, Gen: 6, Share: floor}, 10, 60, 0},
		{"all of what little there is", coldRecord(20), Change{View: cold, Gen: 6, Share: floor}, 0, 20, 0},
		{"only the floor's part is released", coldRecord(90), Change{View: cold, Gen: 6, Share: of(10, 1)}, 10, 60, 20},
		{"a grow leaves it", hotRecord, Change{View: hot, Gen: 6, Share: of(90, 9), Grant: 5 * Token}, 45, 20, 0},
		{"a shrink does not release it", hotRecord, Change{View: hot, Gen: 6, Share: of(30, 3)}, 20, 20, 20},
		{"a shrink to nothing neither", hotRecord, Change{View: hot, Gen: 6}, 0, 20, 40},
		{"a grant does not become extra", hotRecord, Change{View: hot, Gen: 6, Share: share, Grant: 90 * Token}, 60, 20, 0},
		{"the return to cold makes them one", hotRecord, Change{View: hot, Gen: 6, Share: floor, Cold: true}, 40, 0, 20},
		{"and at most the cold bucket", hotRecord, Change{View: edited(hot, func(v *View) { v.Extra = 10 * Token }), Gen: 6, Share: share, Cold: true}, 40, 0, 0},
		{"a return of the cold is nothing", coldRecord(70), Change{View: cold, Gen: 6, Share: floor, Cold: true}, 70, 0, 0},
		{"amnesia has none", Record{}, Change{View: hot, Gen: 6, Share: share, Grant: Token}, 1, 0, 0},
		{"a limit that became strict has none", hotRecord, Change{View: edited(hot, func(v *View) { v.Extra = 0 }), Gen: 6, Share: share}, 40, 0, 0},
		{"a stale change leaves it", hotRecord, Change{View: hot, Gen: 5, Share: share}, 40, 20, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, a := Apply(tt.r, tt.c, 100*tick)
			if r.Tokens != Tokens(tt.tokens)*Token || r.Extra != Tokens(tt.extra)*Token {
				t.Errorf("tokens %d, extra %d; want %d and %d whole ones", r.Tokens, r.Extra, tt.tokens, tt.extra)
			}
			if a.Released != Tokens(tt.released)*Token || a.Tokens != Tokens(tt.tokens+tt.extra)*Token {
				t.Errorf("%+v; want %d released of whole ones", a, tt.released)
			}
		})
	}
}

// A request takes extra first, and what is told of the bucket lets Decide word it.
func TestTakeElastic(t *testing.T) {
	l := Limit{Capacity: 90 * Token, Rate: Rate{Micro: 9 * million}}
	hot := elastic(true, of(60, 6))
	records := []Record{{Hot: true, Stamp: 7, Tokens: 40 * Token, Extra: 20 * Token, At: 100 * tick, Gen: 5, Share: hot.Share}}
	out := make([]Outcome, 1)
	take := func(v View, cost, now int64) Decision {
		t.Helper()
		allowed := Take(records, []View{v}, Tokens(cost)*Token, now*tick, out)
		return Decide(l, out[0], Tokens(cost)*Token, allowed)
	}
	want := func(got Decision, allowed bool, remaining int64, reset, retry time.Duration) {
		t.Helper()
		if got != (Decision{Allowed: allowed, Limit: 90, Remaining: remaining, ResetAfter: reset, RetryAfter: retry}) {
			t.Fatalf("%+v", got)
		}
	}
	sixths := func(tokens int64) time.Duration { // of a second, rounded up to a millisecond
		return (time.Duration(tokens)*time.Second/6 + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	want(take(hot, 15, 100), true, 45, sixths(20), 0)
	if r := records[0]; r.Extra != 5*Token || r.Tokens != 40*Token {
		t.Fatalf("%+v", r)
	}
	want(take(hot, 66, 100), false, 45, sixths(20), sixths(21))
	want(take(hot, 10, 100), true, 35, sixths(25), 0)
	if r := records[0]; r.Extra != 0 || r.Tokens != 35*Token {
		t.Fatalf("%+v", r)
	}
	want(take(hot, 91, 100), false, 35, sixths(25), Never)

	records[0] = Record{}
	cold := elastic(false, Bucket{})
	want(take(cold, 90, 100), true, 0, 30*time.Second, 0) // at the floor's 3 a second
	want(take(cold, 1, 100), false, 0, 30*time.Second, 334*time.Millisecond)
	if ms := TTL(records[0].Tokens, cold.Cold()); ms < 30_000 {
		t.Fatalf("kept for %d ms, full only after 30 s", ms)
	}
}
