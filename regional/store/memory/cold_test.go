package memory

import (
	"testing"

	"pgregory.net/rapid"

	"aliquot/limit"
)

// A cold record comes out of its 20 bytes as it went in, the largest and the smallest too.
func TestColdRecord(t *testing.T) {
	s := shard{stamp: 7, birth: 1_000_000}
	rapid.Check(t, func(t *rapid.T) {
		r := limit.Record{
			Stamp: 7, Tokens: limit.Tokens(rapid.Int64Range(-int64(limit.MaxTokens), int64(limit.MaxTokens)).Draw(t, "tokens")),
			At: rapid.Int64Range(0, limit.MaxExact).Draw(t, "at"), Carry: rapid.Int64Range(0, 999_999).Draw(t, "carry"),
		}
		expires := rapid.Int64Range(s.birth, 200*365*24*3600*1_000_000).Draw(t, "expires")
		c := s.newColdRecord(r, expires)
		if got := s.record(c); got != r {
			t.Fatalf("%+v became %+v", r, got)
		}
		if s.expired(c, expires) {
			t.Fatalf("expired by %d already", expires)
		}
		if later := expires + 1_000_000; c[4] != never && !s.expired(c, later) {
			t.Fatalf("not expired by %d", later)
		}
	})
}

// Of what is lent, a cold key's record stands among those that have no small form, and
// goes back when the loan is over. Where those are many, and where keys share a record,
// nothing is lent.
func TestMemoryLends(t *testing.T) {
	m, c, epoch := newMemory(t, 2*shardCount)
	one, _ := parseID(key(0))
	sh := &m.shards[one.shard()]
	borrow := func(n int, chunk limit.ChunkView) limit.Outcome {
		t.Helper()
		v := coldView(epoch, bucket(100, 1))
		v.Chunk = chunk
		_, out := takeOne(t, m, epoch, key(n*shardCount), 1, v)
		return out
	}
	wants := limit.ChunkView{Want: 10 * limit.Token, Life: 1_000_000}
	first := borrow(0, limit.ChunkView{})
	if first.Lent != 0 || len(sh.cold) != 1 {
		t.Fatalf("%+v, %d cold", first, len(sh.cold))
	}
	if first = borrow(0, wants); first.Lent != wants.Want || len(sh.cold) != 0 || len(sh.counted.records) != 1 {
		t.Fatalf("%+v, %d cold, %d others", first, len(sh.cold), len(sh.counted.records))
	}
	if second := borrow(1, wants); second.Lent == 0 || len(sh.counted.records) != 2 {
		t.Fatalf("%+v", second)
	}
	if third := borrow(2, wants); third.Lent != 0 || len(sh.cold) != 1 {
		t.Fatalf("no room, but %+v", third)
	}
	back := borrow(0, limit.ChunkView{Was: first.Lent, Until: first.LentUntil, Back: first.Lent})
	if !back.Kept || back.Tokens != 97*limit.Token || len(sh.cold) != 2 || len(sh.counted.records) != 1 {
		t.Fatalf("%+v, %d cold, %d others", back, len(sh.cold), len(sh.counted.records))
	}
	if shared := borrow(3, wants); shared.Lent != 0 || len(sh.overflow.records) != 1 {
		t.Fatalf("keys that share a record: %+v", shared)
	}
	c.wait(2)
	if over := borrow(1, limit.ChunkView{}); over.Tokens > 99*limit.Token || len(sh.counted.records) != 0 {
		t.Fatalf("%+v, %d others", over, len(sh.counted.records))
	}
}
