package limit

import "testing"

// The region's cold bucket was 500 tokens at 1000 a second, and is 500 at 100 since 100 s.
func TestSettleAfterTheLimitWasSlowed(t *testing.T) {
	slowed := View{
		Floor: of(500, 100), RuleSince: 100 * tick, Slow: of(0, 1000).Rate, Before: of(500, 1000),
		Phase: Live, Until: 1000 * tick, Stamp: 7,
	}
	elastic := edited(slowed, func(v *View) { v.Floor.Cap, v.Extra = 100*Token, 400*Token })
	record := func(tokens, at int64) Record { return Record{Stamp: 7, Tokens: Tokens(tokens) * Token, At: at} }
	born := func(at int64) View { return edited(slowed, func(v *View) { v.Birth = at }) }
	const ms = tick / 1000
	tests := []struct {
		name   string
		r      Record
		v      View
		now    int64
		tokens int64
	}{
		{"absent at the change: it was full", Record{}, slowed, 100 * tick, 500},
		{"absent: before the instant by this clock", Record{}, slowed, 99 * tick, 500},
		{"absent: drained so long ago that the faster bucket is full just now", Record{}, slowed, 100*tick + 200*ms, 300 + 20},
		{"absent: drained at the change", Record{}, slowed, 100*tick + 500*ms, 50},
		{"absent: no more than was earned since", Record{}, slowed, 102 * tick, 200},
		{"absent: full", Record{}, slowed, 105 * tick, 500},
		{"absent, and elastic: all of the cold bucket was full", Record{}, elastic, 100*tick + 200*ms, 300 + 20},
		{"cold: at the slower rate all the time", record(0, 99*tick), slowed, 101 * tick, 200},
		{"cold: touched since, as ever", record(10, 101*tick), slowed, 102 * tick, 110},
		{"nonsense is not absence", Untrusted(), slowed, 200 * tick, 0},
		{"born before: no more than an expired record holds", Record{}, born(50 * tick), 102 * tick, 200},
		{"born after: earned since birth", Record{}, born(101 * tick), 102 * tick, 100},
	}
	for _, tt := range tests {
		if r, _, _ := Settle(tt.r, tt.v, tt.now); r.Tokens != Tokens(tt.tokens)*Token {
			t.Errorf("%s: %d micro-tokens, want %d tokens", tt.name, r.Tokens, tt.tokens)
		}
	}
}

// The region's cold bucket was 10 tokens at 1 a second, and is 500 at 100 since 100 s: who has
// none has the new one whole, and who has one keeps what it holds.
func TestSettleAfterTheLimitWasRaised(t *testing.T) {
	raised := View{
		Floor: of(500, 100), RuleSince: 100 * tick, Slow: of(0, 1).Rate, Before: Bucket{Cap: MaxTokens, Rate: of(0, 1).Rate},
		Phase: Live, Until: 1000 * tick, Stamp: 7,
	}
	for _, tt := range []struct {
		name   string
		r      Record
		v      View
		now    int64
		tokens int64
	}{
		{"absent: full at once", Record{}, raised, 100 * tick, 500},
		{"absent: and for ever", Record{}, raised, 1 << 50, 500},
		{"cold: each time at its rate", Record{Stamp: 7, At: 97 * tick}, raised, 102 * tick, 3 + 200},
		{"cold: before the instant by this clock", Record{Stamp: 7, At: 97 * tick}, raised, 99 * tick, 2},
		{"cold: touched since, as ever", Record{Stamp: 7, At: 101 * tick}, raised, 102 * tick, 100},
		{"born before: each time at its rate", Record{}, edited(raised, func(v *View) { v.Birth = 97 * tick }), 102 * tick, 3 + 200},
		{"a hot key at its floor: each time at its rate", Record{Hot: true, Gen: 5, Stamp: 7, At: 97 * tick, Share: of(20, 2)},
			edited(raised, func(v *View) { v.Hot, v.Gen, v.Share, v.Phase, v.Since = true, 5, of(900, 200), Floor, 50*tick }), 102 * tick, 3 + 200},
	} {
		if r, _, _ := Settle(tt.r, tt.v, tt.now); r.Tokens != Tokens(tt.tokens)*Token {
			t.Errorf("%s: %d micro-tokens, want %d tokens", tt.name, r.Tokens, tt.tokens)
		}
	}
}

// A window of one second became one of a minute at 130 s: a record that only the second kept
// may have counted 40 uses, up to the end of the minute in which it would count them now.
func TestSettleAfterAWindowGrew(t *testing.T) {
	v := View{
		Algorithm: FixedWindow, Window: 60 * tick, Floor: Bucket{Cap: 50 * Token},
		RuleSince: 130 * tick, Before: Bucket{Cap: 40 * Token}, Phase: Live, Until: 1000 * tick, Stamp: 7,
	}
	of := func(a Algorithm) View { return edited(v, func(v *View) { v.Algorithm = a }) }
	for _, tt := range []struct {
		name string
		r    Record
		v    View
		now  int64 // seconds
		left int64
	}{
		{"absent, in the window of the change", Record{}, v, 131, 10},
		{"absent, at its end", Record{}, v, 179, 10},
		{"absent, in the next window", Record{}, v, 180, 50},
		{"there: what it counts", Record{Stamp: 7, At: 129 * tick, Use: &Use{Window: tick, Label: 130, Cur: 30 * Token}}, v, 131, 20},
		{"a sliding counter, in the window of the change", Record{}, of(SlidingCounter), 131, 10},
		{"a sliding counter, a quarter into the next window", Record{}, of(SlidingCounter), 195, 20},
		{"a sliding counter, in the one after it", Record{}, of(SlidingCounter), 240, 50},
		{"a log counts each admission for its own window", Record{}, of(SlidingLog), 131, 50},
	} {
		r, in, _ := Settle(tt.r, tt.v, tt.now*tick)
		if left := r.left(&tt.v, in, tt.now*tick); left != Tokens(tt.left)*Token {
			t.Errorf("%s: %d micro-tokens left, want %d tokens", tt.name, left, tt.left)
		}
	}
}

// The whole limit had 100 tokens a second, has 10 from 60 s to 100 s, and 100 again since. A hot record that was last
// used before counts the slow time for all of the time until 100 s, by its own share. If its share is not the caller's,
// it has earned nothing until then.
func TestSettleAHotRecordAfterASlowTime(t *testing.T) {
	back := View{
		Hot: true, Gen: 5, Known: 9, Share: of(500, 50), Floor: of(300, 30), RuleSince: 100 * tick, Slow: of(0, 5).Rate,
		Before: of(300, 30), Phase: Live, Until: 1000 * tick, Stamp: 7,
	}
	hot := func(gen uint64, at int64) Record {
		return Record{Hot: true, Stamp: 7, At: at, Gen: gen, Share: of(500, 50)}
	}
	for _, tt := range []struct {
		name   string
		r      Record
		v      View
		now    int64
		tokens int64
	}{
		{"used before", hot(5, 90*tick), back, 102 * tick, 10*5 + 2*50},
		{"the change is to come by this clock", hot(5, 90*tick), back, 99 * tick, 9 * 5},
		{"used since", hot(5, 101*tick), back, 102 * tick, 50},
		{"full since", hot(5, 90*tick), back, 120 * tick, 500},
		{"another share", hot(6, 90*tick), back, 102 * tick, 2 * 50},
		{"in limbo by the store's clock", hot(5, 90*tick), edited(back, func(v *View) { v.Until = 101 * tick }), 102 * tick, 2 * 30},
		{"in limbo", hot(5, 90*tick), edited(back, func(v *View) { v.Phase, v.Slow = Limbo, of(0, 3).Rate }), 102 * tick, 10*3 + 2*30},
	} {
		if r, _, _ := Settle(tt.r, tt.v, tt.now); r.Tokens != Tokens(tt.tokens)*Token {
			t.Errorf("%s: %d micro-tokens, want %d tokens", tt.name, r.Tokens, tt.tokens)
		}
	}
}
