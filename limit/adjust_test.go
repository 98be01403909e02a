package limit

import (
	"testing"
	"time"
)

// spentAt is a cold bucket of 100, 10 a second, that holds so much.
func spentAt(left Tokens, now int64) (Record, View) {
	b := Bucket{Cap: 100 * Token, Rate: Rate{Micro: 10 * million}}
	return Record{Stamp: 1, Tokens: left, At: now}, View{Floor: b, Stamp: 1, Phase: Live, Until: MaxExact}
}

func TestAdjustBucket(t *testing.T) {
	const now = 100 * tick
	share := Bucket{Cap: 40 * Token}
	hot := func(r *Record) { r.Hot, r.Gen, r.Share = true, 7, share }
	hotView := func(v *View) { v.Hot, v.Gen, v.Share = true, 7, share }
	for _, x := range []struct {
		name           string
		left           int64
		reserved, used int64
		record         func(*Record)
		view           func(*View)
		want           Adjusted
		tokens         int64 // of the record
	}{
		{name: "as estimated", left: 50, reserved: 20, used: 20, want: Adjusted{Tokens: 50}, tokens: 50},
		{name: "less", left: 50, reserved: 20, used: 5, want: Adjusted{Refunded: 15, Tokens: 65}, tokens: 65},
		{name: "nothing", left: 0, reserved: 100, used: 0, want: Adjusted{Refunded: 100, Tokens: 100}, tokens: 100},
		{name: "refilled meanwhile", left: 95, reserved: 20, used: 0, want: Adjusted{Refunded: 5, Tokens: 100}, tokens: 100},
		{name: "more", left: 50, reserved: 20, used: 30, want: Adjusted{Charged: 10, Tokens: 40}, tokens: 40},
		{name: "a debt", left: 5, reserved: 20, used: 60, want: Adjusted{Charged: 40, Tokens: -35}, tokens: -35},
		{name: "the largest debt", left: 5, reserved: 20, used: 1000, want: Adjusted{Charged: 105, Tokens: -100}, tokens: -100},
		{name: "no more debt", left: -100, reserved: 20, used: 30, want: Adjusted{Tokens: -100}, tokens: -100},
		{name: "a refund pays a debt", left: -50, reserved: 30, used: 0, want: Adjusted{Refunded: 30, Tokens: -20}, tokens: -20},
		{name: "beyond the share, for the pool", left: 30, reserved: 25, used: 0, record: hot, view: hotView,
			want: Adjusted{Refunded: 10, Spare: 15, Tokens: 40}, tokens: 40},
		{name: "beyond a share of another generation", left: 30, reserved: 25, used: 0,
			record: func(r *Record) { hot(r); r.Gen = 9 }, view: hotView, want: Adjusted{Refunded: 10, Tokens: 40}, tokens: 40},
		{name: "extra is charged first", left: 30, reserved: 0, used: 25,
			record: func(r *Record) { hot(r); r.Extra = 20 * Token }, view: func(v *View) { hotView(v); v.Extra = 20 * Token },
			want: Adjusted{Charged: 25, Tokens: 25}, tokens: 25},
		{name: "a record that is gone", left: 0, reserved: 25, used: 0, record: func(r *Record) { *r = Record{} }, view: hotView,
			want: Adjusted{Amnesia: true}, tokens: 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			r, v := spentAt(Tokens(x.left)*Token, now)
			if x.record != nil {
				x.record(&r)
			}
			if x.view != nil {
				x.view(&v)
			}
			r, got := Adjust(r, Adjustment{View: v, At: now - 1, Reserved: Tokens(x.reserved) * Token, Used: Tokens(x.used) * Token, Debt: 100 * Token}, now)
			want := x.want
			want.At = now
			want.Refunded, want.Spare, want.Charged, want.Tokens = want.Refunded*Token, want.Spare*Token, want.Charged*Token, want.Tokens*Token
			if got != want || r.Tokens != Tokens(x.tokens)*Token {
				t.Errorf("got %+v, the record has %d; want %+v, %d", got, r.Tokens, want, x.tokens*int64(Token))
			}
		})
	}
}

// TestDebtIsPaidFirst: what is earned pays it, the wait told counts it in, and the record
// is kept until the bucket would be full.
func TestDebtIsPaidFirst(t *testing.T) {
	const now = 100 * tick
	r, v := spentAt(-50*Token, now)
	records, out := []Record{r}, make([]Outcome, 1)
	l := Limit{Capacity: 100 * Token, Rate: v.Floor.Rate}
	if Take(records, []View{v}, Token, now, out) {
		t.Fatal("admitted on a debt")
	}
	d := Decide(l, out[0], Token, false)
	if d.Remaining != 0 || d.RetryAfter != 5100*time.Millisecond || d.ResetAfter != 15*time.Second {
		t.Fatalf("%+v", d)
	}
	for wait, want := range map[time.Duration]bool{d.RetryAfter - time.Millisecond: false, d.RetryAfter: true} {
		if got := Take([]Record{r}, []View{v}, Token, now+wait.Microseconds(), out); got != want {
			t.Errorf("after %v: %v", wait, got)
		}
	}
	if got, most := TTL(r.Tokens, v.Cold()), int64(15_000*102/100+1001); got < 15_000 || got > most {
		t.Errorf("kept for %d ms", got)
	}
	later, _, _ := Settle(r, v, now+14*tick) // long after the time that fills an empty bucket
	if later.Tokens != 90*Token {
		t.Errorf("after 14 s it holds %d", later.Tokens)
	}
}

// TestDebtStays: neither a debit, nor a share that shrinks, nor a clock that was set back,
// nor the way to hot and back makes tokens of it.
func TestDebtStays(t *testing.T) {
	const now = 100 * tick
	r, v := spentAt(-50*Token, now)
	v.Floor.Rate = Rate{}
	v.Extra = 10 * Token
	debit := v
	debit.Debit = 30 * Token
	if got, _, _ := Settle(r, debit, now); got.Tokens != -50*Token || got.Extra != 0 {
		t.Errorf("after a debit: %+v", got)
	}
	if got, _, _ := Settle(r, v, now-tick); got.Tokens != -50*Token {
		t.Errorf("the clock was set back: %+v", got)
	}
	got, a := Apply(r, Change{View: v, Gen: 5, Share: Bucket{Cap: 10 * Token}}, now)
	if got.Tokens != -50*Token || got.Extra != 0 || a.Released != 0 || a.Tokens != got.Tokens {
		t.Errorf("hot: %+v, %+v", got, a)
	}
	hot := v
	hot.Hot, hot.Gen, hot.Share = true, 5, Bucket{Cap: 10 * Token}
	if again, a := Apply(got, Change{View: hot, Gen: 4}, now); !a.Stale || a.Tokens != got.Tokens || again.Tokens != got.Tokens {
		t.Errorf("stale: %+v, %+v", again, a)
	}
	got, a = Apply(got, Change{View: hot, Gen: 6, Share: v.Floor, Grant: 20 * Token, Cold: true}, now)
	if got.Tokens != -30*Token || a.Tokens != got.Tokens {
		t.Errorf("cold again, with a grant: %+v, %+v", got, a)
	}
}

// TestAdjustCounted: what was used of a window, a log or a slot is given back while it
// still counts there.
func TestAdjustCounted(t *testing.T) {
	const window = 10 * tick
	at := int64(100*window + 3*tick)
	for _, x := range []struct {
		name           string
		a              Algorithm
		later          int64
		reserved, used int64
		edit           func(*Adjustment)
		want           Adjusted
		inUse          int64
	}{
		{name: "fixed window", a: FixedWindow, later: tick, reserved: 6, used: 2, want: Adjusted{Refunded: 4, Tokens: 6}, inUse: 4},
		{name: "the next fixed window", a: FixedWindow, later: window, reserved: 6, used: 2, want: Adjusted{Tokens: 10}},
		{name: "sliding counter", a: SlidingCounter, later: tick, reserved: 6, used: 2, want: Adjusted{Refunded: 4, Tokens: 6}, inUse: 4},
		{name: "sliding counter, as the window before", a: SlidingCounter, later: window - 3*tick, reserved: 6, used: 2,
			want: Adjusted{Refunded: 4, Tokens: 6}, inUse: 4},
		{name: "sliding counter, long ago", a: SlidingCounter, later: 2 * window, reserved: 6, used: 2, want: Adjusted{Tokens: 10}},
		{name: "log", a: SlidingLog, later: tick, reserved: 6, used: 0, want: Adjusted{Refunded: 6, Tokens: 8}, inUse: 2},
		{name: "log, in part", a: SlidingLog, later: tick, reserved: 6, used: 5, want: Adjusted{Refunded: 1, Tokens: 3}, inUse: 7},
		{name: "log, long ago", a: SlidingLog, later: window, reserved: 6, used: 5, want: Adjusted{Tokens: 10}},
		{name: "slot", a: Concurrency, later: tick, reserved: 6, used: 6, want: Adjusted{Refunded: 6, Tokens: 8}, inUse: 2},
		{name: "another slot", a: Concurrency, later: tick, reserved: 6, used: 6,
			edit: func(a *Adjustment) { a.View.Slot = 99 }, want: Adjusted{Tokens: 2}, inUse: 8},
		{name: "used more", a: SlidingLog, later: tick, reserved: 6, used: 7, want: Adjusted{Charged: 1, Tokens: 1}, inUse: 9},
		{name: "above the rights", a: FixedWindow, later: tick, reserved: 6, used: 16, want: Adjusted{Charged: 10}, inUse: 18},
		{name: "above the rights and a debt", a: FixedWindow, later: tick, reserved: 6, used: 60, want: Adjusted{Charged: 12}, inUse: 20},
		{name: "of another window", a: FixedWindow, later: tick, reserved: 6, used: 2,
			edit: func(a *Adjustment) { a.Window = 60 * tick }, want: Adjusted{Tokens: 2}, inUse: 8},
		{name: "the clock was set back", a: FixedWindow, later: tick, reserved: 6, used: 2,
			edit: func(a *Adjustment) { a.At = at + 2*tick }, want: Adjusted{Tokens: 2}, inUse: 8},
	} {
		t.Run(x.name, func(t *testing.T) {
			v := View{Algorithm: x.a, Window: window, Floor: Bucket{Cap: 10 * Token}, Phase: Live, Until: MaxExact, Stamp: 1}
			records := []Record{{}}
			for i, cost := range []Tokens{2, 6} {
				if x.a == Concurrency {
					v.Slot = uint64(i + 1)
				}
				if !Take(records, []View{v}, cost*Token, at-1+int64(i), make([]Outcome, 1)) {
					t.Fatal("not admitted")
				}
			}
			a := Adjustment{View: v, At: at, Window: window, Reserved: Tokens(x.reserved) * Token, Used: Tokens(x.used) * Token, Debt: 10 * Token}
			if x.edit != nil {
				x.edit(&a)
			}
			r, got := Adjust(records[0], a, at+x.later)
			want := x.want
			want.Refunded, want.Charged, want.Tokens = want.Refunded*Token, want.Charged*Token, want.Tokens*Token
			want.InUse, want.At = Tokens(x.inUse)*Token, at+x.later
			if in := r.Use.inUse(&v, at+x.later); got != want || in != want.InUse {
				t.Errorf("got %+v with %d in use, want %+v", got, in, want)
			}
		})
	}
}

// TestAdjustBlocked: what is in use is not known, so nothing is given back of it.
func TestAdjustBlocked(t *testing.T) {
	v := View{Algorithm: FixedWindow, Window: 10 * tick, Floor: Bucket{Cap: 10 * Token}, Phase: Live, Until: MaxExact, Stamp: 1}
	r := Record{Stamp: 1, At: 100 * tick, Use: &Use{Free: 105 * tick, Window: v.Window, Label: label(100*tick, v.Window), Cur: 5 * Token}}
	a := Adjustment{View: v, At: 100 * tick, Window: v.Window, Reserved: 5 * Token, Debt: 10 * Token}
	if r, got := Adjust(r, a, 101*tick); got != (Adjusted{InUse: MaxTokens, At: 101 * tick}) || r.Use.Cur != 5*Token {
		t.Errorf("%+v, %+v", got, r.Use)
	}
}

// TestSlotLasts as long as its reservation, and never longer than a slot may.
func TestSlotLasts(t *testing.T) {
	v := View{Algorithm: Concurrency, Window: 10 * tick, Floor: Bucket{Cap: 10 * Token}, Phase: Live, Until: MaxExact, Stamp: 1}
	for lasts, want := range map[int64]int64{0: 10 * tick, 3 * tick: 3 * tick, 20 * tick: 10 * tick} {
		v.Slot, v.Lasts = 1, lasts
		records := []Record{{}}
		Take(records, []View{v}, Token, 100*tick, make([]Outcome, 1))
		if e := records[0].Use.Entries[0]; e.Until != 100*tick+want {
			t.Errorf("one of %d ends after %d, want %d", lasts, e.Until-100*tick, want)
		}
	}
}

// TestWhatADeniedRequestGetsBack: a bucket of 100 was charged 50 for a request that another limit denied. Without that
// it would have lost what it earned while it was full.
func TestWhatADeniedRequestGetsBack(t *testing.T) {
	for _, x := range []struct {
		name             string
		had, spent, want Tokens
		rate             int64
	}{
		{"nothing was earned meanwhile", 100, 50, 50, 0},
		{"it was full and has earned 10", 100, 50, 40, 10},
		{"it was full, has earned all of it, and all was spent", 100, 100, 0, 50},
		{"it had room for what it has earned", 80, 30, 50, 20},
		{"it had room for a part of it", 80, 30, 20, 50},
	} {
		v := View{Floor: Bucket{Cap: 100 * Token, Rate: Rate{Micro: x.rate * int64(Token)}}, Phase: Live, Until: MaxExact, Stamp: 1}
		records, out := []Record{{Stamp: 1, Tokens: x.had * Token, At: 100 * tick}}, make([]Outcome, 1)
		if !Take(records, []View{v}, 50*Token, 100*tick, out) {
			t.Fatal("not charged")
		}
		if room := out[0].Bucket.Cap - out[0].Tokens - 50*Token; room != (100-x.had)*Token {
			t.Fatalf("%s: room of %d", x.name, room)
		}
		if !Take(records, []View{v}, x.spent*Token, 101*tick, make([]Outcome, 1)) {
			t.Fatalf("%s: not spent", x.name)
		}
		a := Adjustment{View: v, At: 100 * tick, Reserved: 50 * Token, Denied: true, Room: (100 - x.had) * Token}
		if _, got := Adjust(records[0], a, 101*tick); got.Refunded != x.want*Token {
			t.Errorf("%s: %d come back, want %d", x.name, got.Refunded/Token, x.want)
		}
	}
}
