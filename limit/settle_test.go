package limit

import "testing"

// The scene of the tables: times in seconds, amounts in whole tokens.
const tick = int64(1_000_000)

func of(capacity, rate int64) Bucket {
	return Bucket{Cap: Tokens(capacity) * Token, Rate: Rate{Micro: rate * million}}
}

func TestSettle(t *testing.T) {
	const stamp, other = 7, 8
	floor, share := of(30, 3), of(90, 9)
	small := of(6, 1)
	cold := View{Gen: 5, Floor: floor, Phase: Live, Until: 1000 * tick, Stamp: stamp}
	hot := View{Hot: true, Gen: 5, Share: share, Floor: floor, Phase: Live, Until: 1000 * tick, Stamp: stamp}
	with := func(v View, change func(*View)) View { change(&v); return v }
	rec := func(hot bool, tokens int64, at int64, gen uint64, share Bucket) Record {
		return Record{Hot: hot, Stamp: stamp, Tokens: Tokens(tokens) * Token, At: at * tick, Gen: gen, Share: share}
	}
	stranger := func(r Record) Record { r.Stamp = other; return r }
	limbo := func(v *View) { v.Phase = Limbo }
	floored := func(v *View) { v.Phase, v.Since = Floor, 100*tick }

	tests := []struct {
		name     string
		r        Record
		v        View
		now      int64 // seconds
		tokens   int64
		enforced Bucket
		hot      bool
		amnesia  bool
	}{
		// No record to trust.
		{"an absent cold bucket is full", Record{}, cold, 100, 30, floor, false, false},
		{"born 4 s ago after a flush, it holds what was earned since", Record{}, with(cold, func(v *View) { v.Birth = 96 * tick }), 100, 12, floor, false, false},
		{"born long ago, it is full", Record{}, with(cold, func(v *View) { v.Birth = 1 }), 100, 30, floor, false, false},
		{"other contents: another caller spent", stranger(rec(false, 30, 90, 0, Bucket{})), cold, 100, 0, floor, false, false},
		{"other contents, born 4 s ago", stranger(rec(false, 30, 90, 0, Bucket{})), with(cold, func(v *View) { v.Birth = 96 * tick }), 100, 12, floor, false, false},
		{"nonsense is not absence", Untrusted(), cold, 100, 0, floor, false, false},
		{"the clock went back", rec(false, 30, 101, 0, Bucket{}), cold, 100, 0, floor, false, false},
		{"the clock went back: the time since birth was spent from already", rec(false, 0, 101, 0, Bucket{}), with(cold, func(v *View) { v.Birth = 1 }), 100, 0, floor, false, false},
		{"an absent hot bucket is amnesia", Record{}, hot, 100, 0, share, true, true},
		{"a hot bucket of other contents is amnesia", stranger(rec(true, 50, 90, 5, share)), hot, 100, 0, share, true, true},
		{"a hot bucket from the future has lost its tokens alone", rec(true, 50, 101, 5, share), hot, 100, 0, share, true, false},
		{"a share that a cold caller does not know of outlasts a clock that went back", rec(true, 3, 101, 5, small), with(cold, limbo), 100, 0, small, true, false},
		{"a hot bucket from the future of an older generation is amnesia", rec(true, 50, 101, 4, share), hot, 100, 0, share, true, true},
		{"a hot bucket of an older generation is amnesia", rec(true, 50, 90, 4, share), hot, 100, 0, share, true, true},
		{"a cold record under a hot view is amnesia", rec(false, 20, 90, 0, Bucket{}), hot, 100, 0, share, true, true},
		{"a cold record older than the view is amnesia", rec(false, 20, 90, 4, Bucket{}), hot, 100, 0, share, true, true},
		{"amnesia in limbo enforces the smaller", Record{}, with(hot, limbo), 100, 0, floor, true, true},
		{"a stale hot view of a key that has cooled down gets the floor", rec(false, 20, 99, 5, Bucket{}), hot, 100, 23, floor, false, false},

		// Live.
		{"cold refills at the floor", rec(false, 2, 95, 0, Bucket{}), cold, 100, 17, floor, false, false},
		{"cold is cold in limbo too", rec(false, 2, 95, 0, Bucket{}), with(cold, limbo), 100, 17, floor, false, false},
		{"hot refills at the share", rec(true, 2, 95, 5, share), hot, 100, 47, share, true, false},
		{"hot, full", rec(true, 2, 1, 5, share), hot, 100, 90, share, true, false},
		{"newer, but from before the session: the smaller", rec(true, 2, 95, 6, share), with(hot, func(v *View) { v.Share, v.Known = small, 6 }), 100, 6, small, true, false},
		{"a record newer than the view is obeyed", rec(true, 2, 95, 6, small), hot, 100, 6, small, true, false},
		{"a limit that was raised refills at the old rate once", rec(true, 2, 98, 5, small), hot, 100, 4, share, true, false},
		{"a limit that was lowered voids what is above", rec(true, 80, 98, 5, share), with(hot, func(v *View) { v.Share = small }), 100, 6, small, true, false},

		// Live after a lapse.
		{"time before the phase counts at the smallest rate", rec(true, 2, 90, 5, share), with(hot, func(v *View) { v.Since = 98 * tick }), 100, 2 + 8*3 + 2*9, share, true, false},
		{"tokens above the floor were void in limbo", rec(true, 80, 99, 5, share), with(hot, func(v *View) { v.Since = 100 * tick }), 100, 30, share, true, false},
		{"a lender does not pile up the floor's burst in a lapse", rec(true, 2, 10, 5, small), with(with(hot, func(v *View) { v.Share = small }), func(v *View) { v.Since = 98 * tick }), 100, 6, small, true, false},

		// Limbo.
		{"limbo enforces the smaller: the floor", rec(true, 80, 99, 5, share), with(hot, limbo), 100, 30, floor, true, false},
		{"limbo enforces the smaller: the share", rec(true, 2, 99, 5, small), with(with(hot, func(v *View) { v.Share = small }), limbo), 100, 3, small, true, false},
		{"live past the lease is limbo", rec(true, 80, 99, 5, share), with(hot, func(v *View) { v.Until = 100*tick - 1 }), 100, 30, floor, true, false},
		{"live at the lease's end still is", rec(true, 80, 99, 5, share), with(hot, func(v *View) { v.Until = 100 * tick }), 100, 89, share, true, false},
		{"the floor before its time is limbo", rec(true, 2, 99, 5, small), with(with(hot, func(v *View) { v.Share = small }), func(v *View) { v.Phase, v.Since = Floor, 101*tick }), 100, 3, small, true, false},

		// Floor.
		{"the floor refills from its start, the share's rate before", rec(true, 2, 97, 5, small), with(with(hot, func(v *View) { v.Share = small }), floored), 104, 2 + 3*1 + 4*3, floor, true, false},
		{"what a lender could not hold before the floor it has not", rec(true, 2, 10, 5, small), with(with(hot, func(v *View) { v.Share = small }), floored), 100, 6, floor, true, false},
		{"the floor goes on at its own rate", rec(true, 6, 104, 5, small), with(with(hot, func(v *View) { v.Share = small }), floored), 106, 12, floor, true, false},
		{"a big share shrinks to the floor", rec(true, 80, 99, 5, share), with(hot, floored), 100, 30, floor, true, false},

		// A cold view of a hot record.
		{"live: the left-over of a key that has cooled down", rec(true, 80, 99, 5, share), cold, 100, 30, floor, false, false},
		{"live: a small left-over does not pile up", rec(true, 2, 10, 5, small), cold, 100, 6, floor, false, false},
		{"limbo: the smaller of both", rec(true, 2, 99, 5, small), with(cold, limbo), 100, 3, small, true, false},
		{"floor: the floor", rec(true, 2, 100, 5, small), with(cold, floored), 104, 14, floor, true, false},
		{"newer than the daemon knows: the smaller, live too", rec(true, 2, 99, 6, small), cold, 100, 3, small, true, false},
		{"newer, at the floor", rec(true, 2, 100, 6, small), with(cold, floored), 104, 6, small, true, false},

		// Debit.
		{"what the emergency limit admitted goes first", rec(true, 20, 100, 5, share), with(hot, func(v *View) { v.Debit = 15 * Token }), 100, 5, share, true, false},
		{"at most to zero", rec(true, 20, 100, 5, share), with(hot, func(v *View) { v.Debit = 25 * Token }), 100, 0, share, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := tt.now * tick
			r, enforced, amnesia := Settle(tt.r, tt.v, now)
			if r.Tokens != Tokens(tt.tokens)*Token {
				t.Errorf("tokens %d, want %d whole ones", r.Tokens, tt.tokens)
			}
			if enforced != tt.enforced {
				t.Errorf("enforced %+v, want %+v", enforced, tt.enforced)
			}
			if r.Hot != tt.hot || amnesia != tt.amnesia {
				t.Errorf("hot %v, amnesia %v; want %v, %v", r.Hot, amnesia, tt.hot, tt.amnesia)
			}
			if r.At != now || r.Stamp != stamp {
				t.Errorf("written at %d with stamp %d", r.At, r.Stamp)
			}
		})
	}
}

func TestApply(t *testing.T) {
	const stamp = 7
	floor, share, small := of(30, 3), of(90, 9), of(9, 0)
	cold := View{Gen: 5, Floor: floor, Phase: Live, Until: 1000 * tick, Stamp: stamp}
	hot := View{Hot: true, Gen: 5, Share: share, Floor: floor, Phase: Live, Until: 1000 * tick, Stamp: stamp}
	record := Record{Hot: true, Stamp: stamp, Tokens: 50 * Token, At: 100 * tick, Gen: 5, Share: share}
	fence := Record{Stamp: stamp, Tokens: 10 * Token, At: 100 * tick, Gen: 8}
	tests := []struct {
		name string
		r    Record
		c    Change
		want Applied
		hot  bool
	}{
		{"escalation keeps what the cold bucket holds", Record{}, Change{View: cold, Gen: 6, Share: floor}, Applied{Tokens: 30 * Token}, true},
		{"a grow arrives empty", record, Change{View: hot, Gen: 6, Share: of(120, 12)}, Applied{Tokens: 50 * Token}, true},
		{"but for its grant", record, Change{View: hot, Gen: 6, Share: of(120, 12), Grant: 20 * Token}, Applied{Tokens: 70 * Token}, true},
		{"a grant above the capacity is void", record, Change{View: hot, Gen: 6, Share: share, Grant: 50 * Token}, Applied{Tokens: 90 * Token}, true},
		{"a shrink releases in proportion", record, Change{View: hot, Gen: 6, Share: small}, Applied{Released: 45 * Token, Tokens: 5 * Token}, true},
		{"a shrink to nothing releases all", record, Change{View: hot, Gen: 6}, Applied{Released: 50 * Token}, true},
		{"the same generation again is stale", record, Change{View: hot, Gen: 5, Share: small, Grant: Token}, Applied{Tokens: 50 * Token, Stale: true}, true},
		{"a change after its deadline is not made", record, Change{View: hot, Gen: 6, Share: small, Grant: Token, Deadline: 1}, Applied{Late: true}, true},
		{"an older one too", record, Change{View: hot, Gen: 4, Share: small}, Applied{Tokens: 50 * Token, Stale: true}, true},
		{"a lost record is amnesia, the grant is not lost", Record{}, Change{View: hot, Gen: 6, Share: share, Grant: Token}, Applied{Tokens: Token, Amnesia: true}, true},
		{"the return to cold", record, Change{View: hot, Gen: 6, Share: floor, Cold: true}, Applied{Released: 33_333_334, Tokens: 16_666_666}, false},
		{"a change that got stuck until the key had cooled down is stale", fence, Change{View: hot, Gen: 8, Share: share, Grant: 20 * Token}, Applied{Tokens: 10 * Token, Stale: true}, false},
		{"a later escalation is not", fence, Change{View: with(cold, 8), Gen: 9, Share: floor}, Applied{Tokens: 10 * Token}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, got := Apply(tt.r, tt.c, 100*tick)
			tt.want.At = 100 * tick
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if r.Hot != tt.hot {
				t.Errorf("hot %v", r.Hot)
			}
			if (got.Stale || got.Late) && r != tt.r {
				t.Errorf("a stale or late change wrote %+v", r)
			}
			if !got.Stale && !got.Late && (r.Gen != tt.c.Gen || r.Tokens != got.Tokens) {
				t.Errorf("wrote %+v", r)
			}
		})
	}
}

func with(v View, gen uint64) View { v.Gen = gen; return v }

func TestTakeIsAllOrNothing(t *testing.T) {
	v := View{Floor: of(10, 1), Phase: Live, Until: 1000 * tick, Stamp: 7}
	poor := Record{Stamp: 7, Tokens: 2 * Token, At: 100 * tick}
	records, out := []Record{{}, poor}, make([]Outcome, 2)
	if Take(records, []View{v, v}, 3*Token, 100*tick, out) {
		t.Fatal("allowed what one limit could not hold")
	}
	if out[0].Tokens != 10*Token || out[1].Tokens != 2*Token || records[0].Tokens != 10*Token {
		t.Fatalf("charged for a denied request: %+v", out)
	}
	if !Take(records, []View{v, v}, 2*Token, 100*tick, out) || out[0].Tokens != 8*Token || records[1].Tokens != 0 {
		t.Fatalf("not charged alike: %+v", out)
	}
}
