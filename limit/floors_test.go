package limit

import "testing"

// The region's floor grew from 10 tokens at 1 a second to 30 at 3, at 100 s.
func TestSettleAfterFloorsChanged(t *testing.T) {
	cold := View{Floor: of(30, 3), FloorSince: 100 * tick, Low: of(10, 1), Phase: Live, Until: 1000 * tick, Stamp: 7}
	more := edited(cold, func(v *View) { v.Extra = 60 * Token })
	hot := edited(cold, func(v *View) { v.Hot, v.Gen, v.Share = true, 5, of(90, 9) })
	coldRecord := func(tokens, at int64) Record {
		return Record{Stamp: 7, Tokens: Tokens(tokens) * Token, At: at * tick}
	}
	hotRecord := func(tokens, at int64) Record {
		return Record{Hot: true, Stamp: 7, Tokens: Tokens(tokens) * Token, At: at * tick, Gen: 5, Share: of(90, 9)}
	}
	at := func(v View, phase Phase, since int64) View {
		v.Phase, v.Since = phase, since*tick
		return v
	}
	tests := []struct {
		name   string
		r      Record
		v      View
		now    int64 // seconds
		tokens int64
	}{
		// Cold records.
		{"cold: each time at its rate", coldRecord(2, 96), cold, 104, 2 + 4*1 + 4*3},
		{"cold: no more than the low floor's until then", coldRecord(2, 50), cold, 104, 10 + 4*3},
		{"cold: what was above the low floor is void", coldRecord(25, 96), cold, 104, 10 + 4*3},
		{"cold: settled since, as ever", coldRecord(25, 101), cold, 102, 28},
		{"cold: settled at the instant, as ever", coldRecord(25, 100), cold, 101, 28},
		{"cold: before the instant by this clock", coldRecord(2, 90), cold, 95, 7},
		{"elastic: the low floor's rate, and extra on its capacity", coldRecord(50, 96), more, 104, 50 + 4*1 + 4*3},
		{"elastic: full at the low floor", coldRecord(65, 90), more, 104, 70 + 4*3},
		// No record.
		{"absent: it was full at the low floor", Record{}, cold, 101, 10},
		{"absent: or has earned more since", Record{}, cold, 104, 12},
		{"absent: full", Record{}, cold, 200, 30},
		{"absent: before the instant by this clock", Record{}, cold, 99, 10},
		{"absent, elastic: without extra, its record may have left too early", Record{}, more, 101, 10},
		{"absent, elastic: earned since", Record{}, more, 110, 30},
		{"absent, elastic: full", Record{}, more, 200, 90},
		{"born before: earned since the change", Record{}, edited(cold, func(v *View) { v.Birth = 50 * tick }), 104, 12},
		{"born after: earned since birth", Record{}, edited(cold, func(v *View) { v.Birth = 102 * tick }), 104, 6},
		{"born, before the instant by this clock", Record{}, edited(cold, func(v *View) { v.Birth = 50 * tick }), 99, 0},
		{"nonsense is not absence", Untrusted(), cold, 104, 0},
		// Hot records.
		{"hot: the smallest until then", hotRecord(2, 96), hot, 104, 2 + 4*1 + 4*9},
		{"hot: what was above the low floor is void", hotRecord(50, 96), hot, 104, 10 + 4*9},
		{"hot: settled since, as ever", hotRecord(50, 101), hot, 104, 50 + 3*9},
		{"hot: a later phase moves the boundary", hotRecord(2, 96), at(hot, Live, 102), 104, 2 + 6*1 + 2*9},
		{"hot: an earlier phase does not", hotRecord(2, 96), at(hot, Live, 98), 104, 2 + 4*1 + 4*9},
		{"hot: settled between the change and the phase", hotRecord(2, 101), at(hot, Live, 103), 104, 2 + 2*3 + 9},
		{"limbo: no phase, but the change", hotRecord(2, 96), at(hot, Limbo, 103), 104, 2 + 4*1 + 4*3},
		{"limbo: settled since, as ever", hotRecord(2, 101), at(hot, Limbo, 103), 104, 2 + 3*3},
		{"floor: from the change", hotRecord(2, 96), at(hot, Floor, 90), 104, 2 + 4*1 + 4*3},
		{"the left-over of a key that has cooled down", hotRecord(2, 96), edited(cold, func(v *View) { v.Gen = 5 }), 104, 2 + 4*1 + 4*3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := Settle(tt.r, tt.v, tt.now*tick)
			if r.Tokens != Tokens(tt.tokens)*Token {
				t.Errorf("tokens %d, want %d whole ones", r.Tokens, tt.tokens)
			}
		})
	}
}

// Another daemon of the region took a lease at 100 s: the floor, which the caller
// took back at 90 s, may be lent until 122 s.
func TestSettleWhileHeard(t *testing.T) {
	floor, share := of(30, 3), of(6, 1)
	v := View{
		Hot: true, Gen: 5, Share: share, Floor: floor, Phase: Floor, Since: 90 * tick, Until: 80 * tick, Stamp: 7,
		Heard: 100 * tick, HeardWait: 22 * tick,
	}
	record := Record{Hot: true, Stamp: 7, Tokens: Token, At: 120 * tick, Gen: 5, Share: share}
	old := edited(record, func(r *Record) { r.At = 95 * tick })
	tests := []struct {
		name     string
		r        Record
		v        View
		now      int64 // seconds
		tokens   int64
		enforced Bucket
	}{
		{"heard: limbo", record, v, 121, 2, share},
		{"silent for long enough: the floor", record, v, 122, 3, floor},
		{"it fills from that instant, not from the caller's", old, v, 124, 6 + 2*3, floor},
		{"a later lease counts again", record, edited(v, func(v *View) { v.Heard = 119 * tick }), 124, 5, share},
		{"nobody was heard", record, edited(v, func(v *View) { v.Heard = 0 }), 121, 4, floor},
		{"not to be checked", record, edited(v, func(v *View) { v.HeardWait = 0 }), 121, 4, floor},
		{"the caller's own time is later", record, edited(v, func(v *View) { v.Since = 123 * tick }), 122, 3, share},
		{"heard from the future: the clock went back", record, edited(v, func(v *View) { v.Heard = 1000 * tick }), 200, 6, share},
		{"the largest number", record, edited(v, func(v *View) { v.Heard = MaxExact }), 200, 6, share},
		{"live is live", record, edited(v, func(v *View) { v.Phase, v.Since, v.Until = Live, 0, 1000*tick; v.Share = of(60, 6) }), 121, 2, of(60, 6)},
		{"blind: what limbo would give", Record{Stamp: 7, Tokens: Token, At: 120 * tick}, edited(v, func(v *View) {
			v.Hot, v.Gen, v.Blind, v.LimboFloor = false, 0, true, of(2, 0)
		}), 121, 1, of(2, 0)},
		{"blind, but nobody was heard", Record{Stamp: 7, Tokens: Token, At: 120 * tick}, edited(v, func(v *View) {
			v.Hot, v.Gen, v.Blind, v.LimboFloor, v.Heard = false, 0, true, of(2, 0), 0
		}), 121, 4, floor},
		{"cold is cold", Record{Stamp: 7, Tokens: Token, At: 120 * tick}, edited(v, func(v *View) { v.Hot, v.Gen = false, 0 }), 121, 4, floor},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, enforced, _ := Settle(tt.r, tt.v, tt.now*tick)
			if r.Tokens != Tokens(tt.tokens)*Token {
				t.Errorf("tokens %d, want %d whole ones", r.Tokens, tt.tokens)
			}
			if enforced != tt.enforced {
				t.Errorf("enforced %+v, want %+v", enforced, tt.enforced)
			}
		})
	}
}
