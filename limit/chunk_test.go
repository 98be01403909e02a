package limit

import "testing"

// The clock of these tests reads seconds; a chunk is lent for one.
const chunkLife = tick

// chunkView is a caller of a strict limit, whose share here is 90 tokens at 9 a second.
func chunkView(c ChunkView) View {
	return View{Hot: true, Gen: 5, Share: of(90, 9), Floor: of(30, 3), Phase: Live, Until: 1000 * tick, Stamp: 7, Chunk: c}
}

// lentRecord is a hot record, settled at 100 s, with so many tokens, and so many lent until
// 101 s.
func lentRecord(tokens, lent int64) Record {
	r := Record{Hot: true, Stamp: 7, Gen: 5, Share: of(90, 9), Tokens: Tokens(tokens) * Token, At: 100 * tick}
	if r.Lent = Tokens(lent) * Token; lent > 0 {
		r.LentUntil = 101 * tick
	}
	return r
}

// borrowing wants so many tokens, besides bringing back or keeping what it had until 101 s.
func borrowing(was, keep, back, want int64) ChunkView {
	c := ChunkView{Was: Tokens(was) * Token, Keep: Tokens(keep) * Token, Back: Tokens(back) * Token, Want: Tokens(want) * Token, Life: chunkLife}
	if was > 0 {
		c.Until = 101 * tick
	}
	return c
}

func TestChunks(t *testing.T) {
	others := func(c ChunkView) ChunkView { c.Until++; return c }
	of := func(f func(*View), c ChunkView) View { return edited(chunkView(c), f) }
	tests := []struct {
		name         string
		r            Record
		v            View
		at           int64 // microseconds after 100 s
		tokens, lent int64 // of the record, afterwards
		until        int64 // of what is lent, microseconds after 100 s
		granted      int64
		kept         bool
	}{
		{"half of what is there is lent", lentRecord(40, 0), chunkView(borrowing(0, 0, 0, 90)), 0, 20, 20, tick, 20, false},
		{"or what is wanted", lentRecord(40, 0), chunkView(borrowing(0, 0, 0, 5)), 0, 35, 5, tick, 5, false},
		{"nothing below the least", lentRecord(40, 0), of(func(v *View) { v.Chunk.Least = 21 * Token }, borrowing(0, 0, 0, 90)), 0, 40, 0, 0, 0, false},
		{"nothing of a debt", lentRecord(-4, 0), chunkView(borrowing(0, 0, 0, 90)), 0, -4, 0, 0, 0, false},
		{"nothing in limbo", lentRecord(20, 0), of(func(v *View) { v.Until = 1 }, borrowing(0, 0, 0, 90)), 0, 20, 0, 0, 0, false},
		{"nothing before the floor may be taken back", lentRecord(20, 0), of(func(v *View) { v.Phase, v.Since, v.HeardWait, v.Heard = Floor, 90*tick, 20*tick, 90*tick }, borrowing(0, 0, 0, 90)), 0, 20, 0, 0, 0, false},
		{"nothing of a later share than the caller's", edited(lentRecord(20, 0), func(r *Record) { r.Gen = 6 }), of(func(v *View) { v.Since = 1 }, borrowing(0, 0, 0, 90)), 0, 20, 0, 0, 0, false},
		{"nothing to a caller that holds a hot key for cold", edited(lentRecord(20, 0), func(r *Record) { r.Gen = 6 }), of(func(v *View) { v.Hot, v.Gen = false, 5 }, borrowing(0, 0, 0, 90)), 0, 20, 0, 0, 0, false},
		{"nothing beside tokens that do not fill up", edited(lentRecord(20, 0), func(r *Record) { r.Extra = Token }), of(func(v *View) { v.Extra = Token }, borrowing(0, 0, 0, 90)), 0, 20, 0, 0, 0, false},
		{"an absent cold bucket lends", Record{}, of(func(v *View) { v.Hot = false }, borrowing(0, 0, 0, 90)), 0, 15, 15, tick, 15, false},

		{"what is out is room that is missing", lentRecord(70, 20), chunkView(ChunkView{}), tick / 2, 70, 20, tick, 0, false},
		{"until it has ended", lentRecord(70, 20), chunkView(ChunkView{}), 3 * tick, 88, 0, 0, 0, false},
		{"at its last instant it is out", lentRecord(70, 20), chunkView(ChunkView{}), tick, 70, 20, tick, 0, false},
		{"a capacity that is smaller than what is out is none", lentRecord(10, 80), of(func(v *View) { v.Phase = Limbo }, ChunkView{}), 0, 0, 80, tick, 0, false},

		{"brought back", lentRecord(0, 20), chunkView(borrowing(20, 0, 15, 0)), 0, 15, 0, 0, 0, true},
		{"one of two callers brings back", lentRecord(0, 20), chunkView(borrowing(12, 0, 10, 0)), 0, 10, 8, tick, 0, true},
		{"no more than fits", lentRecord(75, 20), of(func(v *View) { v.Share = edited(v.Share, func(b *Bucket) { b.Cap = 80 * Token }) }, borrowing(12, 0, 10, 0)), 0, 70, 8, tick, 0, true},
		{"into a debt", lentRecord(-4, 20), chunkView(borrowing(20, 0, 15, 0)), 0, 11, 0, 0, 0, true},
		{"all was spent", lentRecord(0, 20), chunkView(borrowing(20, 0, 0, 0)), 0, 0, 0, 0, 0, true},
		{"of another loan nothing counts", lentRecord(0, 20), chunkView(others(borrowing(20, 0, 15, 0))), 0, 0, 20, tick, 0, false},
		{"nor of one that has ended", lentRecord(0, 20), chunkView(borrowing(20, 0, 15, 0)), tick + 1, 9, 0, 0, 0, false},
		{"nor after amnesia", edited(lentRecord(0, 20), func(r *Record) { r.Gen = 4 }), chunkView(borrowing(20, 0, 15, 0)), 0, 0, 20, tick, 0, false},

		{"kept and renewed", lentRecord(40, 20), chunkView(borrowing(20, 6, 0, 10)), tick / 10, 30, 16, tick + tick/10, 10, true},
		{"a renewal that gets nothing moves no end", lentRecord(0, 20), chunkView(borrowing(20, 6, 0, 10)), 0, 0, 6, tick, 0, true},
		{"nor does one of a shorter life", lentRecord(40, 20), of(func(v *View) { v.Chunk.Life = 1 }, borrowing(20, 6, 0, 10)), 0, 30, 16, tick, 10, true},
		{"nor one beside another's", lentRecord(40, 20), chunkView(borrowing(12, 6, 0, 10)), tick / 10, 30, 24, tick, 10, true},
		{"of which less than a quarter of a life is left: nothing is lent", lentRecord(40, 20), chunkView(borrowing(0, 0, 0, 10)), tick/4*3 + 4, 46, 20, tick, 0, false},

		{"the clock was set back: what is out ends as soon as before", edited(lentRecord(40, 20), func(r *Record) { r.At, r.LentUntil = 200*tick, 200*tick+tick/2 }), chunkView(borrowing(20, 0, 15, 0)), 0, 0, 20, tick / 2, 0, false},
		{"earlier contents may have lent until the birth", Record{}, of(func(v *View) { v.Birth = 100*tick + 5 }, borrowing(20, 0, 15, 9)), 0, 0, int64(MaxTokens / Token), 5, 0, false},
		{"but not longer than anything is lent", Record{}, of(func(v *View) { v.Hot, v.Birth = false, 500*tick }, ChunkView{}), 0, 0, int64(MaxTokens / Token), MaxChunkLife, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			records, out, now := []Record{tt.r}, make([]Outcome, 1), 100*tick+tt.at
			Take(records, []View{tt.v}, 0, now, out)
			r := records[0]
			if r.Tokens/Token != Tokens(tt.tokens) || r.Lent != Tokens(tt.lent)*Token || out[0].Lent != Tokens(tt.granted)*Token || out[0].Kept != tt.kept {
				t.Errorf("%d tokens, %d lent, of it now %d, kept %v", r.Tokens, r.Lent, out[0].Lent, out[0].Kept)
			}
			if want := tt.until + 100*tick; r.Lent > 0 && r.LentUntil != want || r.Lent == 0 && r.LentUntil != 0 {
				t.Errorf("until %d, want %d", r.LentUntil, want)
			}
			has := out[0].Lent > 0 || out[0].Kept && tt.v.Chunk.Keep > 0
			if has && (out[0].LentUntil != r.LentUntil || out[0].LentFor != r.LentUntil-now) || !has && (out[0].LentUntil != 0 || out[0].LentFor != 0) {
				t.Errorf("told %+v", out[0])
			}
			if out[0].Tokens != r.Tokens+r.Extra {
				t.Errorf("told %d", out[0].Tokens)
			}
		})
	}
}

// What is brought back is there for the very request that brings it, and what is lent is
// what it leaves.
func TestChunkComesBackFirst(t *testing.T) {
	records, out := []Record{lentRecord(2, 20)}, make([]Outcome, 1)
	if !Take(records, []View{chunkView(borrowing(20, 0, 10, 90))}, 8*Token, 100*tick, out) || out[0].Lent != 2*Token || out[0].Tokens != 2*Token {
		t.Errorf("%+v", out[0])
	}
}

func TestApplyWithChunks(t *testing.T) {
	cold := View{Gen: 4, Floor: of(30, 3), Phase: Live, Until: 1000 * tick, Stamp: 7}
	change := func(v View, share int64) Change { return Change{View: v, Gen: 6, Share: of(share, 1)} }
	hot := chunkView(ChunkView{})
	tests := []struct {
		name string
		r    Record
		c    Change
		want Applied
		lent int64
	}{
		{"a shrink takes its part of both", lentRecord(40, 20), change(hot, 45), Applied{Released: 30 * Token, Tokens: 10 * Token}, 20},
		{"of what is there", lentRecord(10, 40), change(hot, 45), Applied{Released: 10 * Token}, 40},
		{"nothing is there", lentRecord(0, 40), change(hot, 45), Applied{}, 40},
		{"a debt stays", lentRecord(-5, 40), change(hot, 45), Applied{Tokens: -5 * Token}, 40},
		{"more is out than the share may hold", lentRecord(10, 40), change(hot, 20), Applied{Released: 10 * Token, InUse: 40 * Token, Due: tick + 1}, 40},
		{"it comes back along with the change", lentRecord(10, 40), change(chunkView(borrowing(40, 0, 35, 0)), 20), Applied{Released: 35 * Token, Tokens: 10 * Token}, 0},
		{"a grant has as much less room", lentRecord(10, 40), edited(change(hot, 90), func(c *Change) { c.Grant = 90 * Token }), Applied{Tokens: 50 * Token}, 40},
		{"a question changes nothing", lentRecord(10, 40), edited(change(hot, 20), func(c *Change) { c.Gen = 5 }), Applied{Tokens: 10 * Token, InUse: 40 * Token, Due: tick + 1}, 40},
		{"the same change again, with its grant, is stale", lentRecord(10, 40), edited(change(hot, 20), func(c *Change) { c.Gen, c.Grant = 5, Token }), Applied{Tokens: 10 * Token, Stale: true}, 40},
		{"a cold key gets hot", Record{Stamp: 7, Tokens: 10 * Token, At: 100 * tick, Lent: 20 * Token, LentUntil: 101 * tick}, change(cold, 30), Applied{Tokens: 10 * Token}, 20},
		{"an elastic one: what is out counts as extra", Record{Stamp: 7, Tokens: 40 * Token, At: 100 * tick, Lent: 50 * Token, LentUntil: 101 * tick},
			change(edited(cold, func(v *View) { v.Extra = 60 * Token }), 3), Applied{Released: 27 * Token, Tokens: 13 * Token}, 50},
		{"a hot one gets cold", lentRecord(10, 40), edited(change(hot, 30), func(c *Change) { c.Cold = true }), Applied{Released: 10 * Token, InUse: 40 * Token, Due: tick + 1}, 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, got := Apply(tt.r, tt.c, 100*tick)
			tt.want.At = 100 * tick
			if got != tt.want || r.Lent != Tokens(tt.lent)*Token {
				t.Errorf("%+v, want %+v; %d lent", got, tt.want, r.Lent)
			}
		})
	}
}

// A cold record with a loan is kept until it is full, which it may not be before the loan
// has ended.
func TestLentRecordIsKept(t *testing.T) {
	v := View{Floor: of(30, 3)}
	r := Record{Tokens: 27 * Token, At: 100 * tick}
	plain := r.Keep(&v)
	r.Lent, r.LentUntil = 3*Token, 102*tick
	if got := r.Keep(&v); plain != 2020 || got != 2020+2000+40+1001 {
		t.Errorf("%d ms, and %d with a loan", plain, got)
	}
}
