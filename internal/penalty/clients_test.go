package penalty

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
)

// someKey is the nth key, its bits as spread as a hash's.
func someKey(n uint64) budget.KeyID {
	k := budget.KeyID{Rule: 1}
	for i := range 2 {
		n += 0x9E3779B97F4A7C15
		z := n
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		binary.LittleEndian.PutUint64(k.Hash[8*i:], z^z>>31)
	}
	return k
}

const start = budget.Instant(time.Hour)

// bucket is a limit of thousandths of tokens, which come at so many a millisecond.
type bucket struct {
	capacity, tokens, perMS int64
	at                      budget.Instant
}

func newBucket(capacity, perMS int64) *bucket {
	return &bucket{1000 * capacity, 1000 * capacity, perMS, start}
}

func (b *bucket) take(now budget.Instant) (allowed bool, wait time.Duration) {
	b.tokens = min(b.capacity, b.tokens+b.perMS*now.Sub(b.at).Milliseconds())
	b.at = now
	if b.tokens >= 1000 {
		b.tokens -= 1000
		return true, 0
	}
	return false, time.Duration((1000-b.tokens+b.perMS-1)/b.perMS) * time.Millisecond
}

// asked is what one request came to.
type asked struct {
	allowed bool
	wait    time.Duration
	held    Hold
}

// ask is a request as a daemon decides it.
func ask(c *Clients, key budget.KeyID, t Terms, b *bucket, now budget.Instant) asked {
	if h := c.Arrives(key, t, now); h.State != Free {
		return asked{wait: h.Until.Sub(now), held: h}
	}
	allowed, wait := b.take(now)
	if allowed {
		return asked{allowed: true}
	}
	return asked{wait: wait, held: c.Denied(key, t, wait, now)}
}

// A client that asks every millisecond whatever it is told is held back for twice as long
// each time, and never for more than the rule says; one silent half is enough to be free.
func TestCoolDownDoubles(t *testing.T) {
	var c Clients
	terms := Terms{CoolAfter: 50, CoolMost: 2 * time.Second}
	b := newBucket(10, 100)
	key := someKey(1)
	var lengths []time.Duration
	now := start
	for ; len(lengths) < 10 && now < start.Add(time.Minute); now = now.Add(time.Millisecond) {
		if a := ask(&c, key, terms, b, now); a.held.Began {
			lengths = append(lengths, a.held.For)
		}
	}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000} {
		if i >= len(lengths) || lengths[i] != want*time.Millisecond {
			t.Fatalf("cool-downs of %v", lengths)
		}
	}
	held := c.Look(key, terms, now)
	if held.State != Cooling || held.Until.Sub(now) > terms.CoolMost {
		t.Fatalf("%+v", held)
	}
	if other := c.Look(key, Terms{}, now); other.State != Free {
		t.Errorf("held back by a rule that states nothing: %+v", other)
	}
	now = held.Until
	if a := ask(&c, key, terms, b, now); !a.allowed {
		t.Fatalf("after it waited: %+v", a)
	}
	for range 2000 {
		now = now.Add(time.Millisecond)
		if a := ask(&c, key, terms, b, now); a.held.Began {
			if a.held.For != 10*time.Millisecond {
				t.Errorf("a client that waited once begins at %v", a.held.For)
			}
			return
		}
	}
	t.Error("it was never held back again")
}

// A client that asks when it was told to, one request after another or several that are under
// way together, is never held back.
func TestWhoWaitsIsNeverHeldBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Clients
		terms := Terms{
			CoolAfter: rapid.Int64Range(1, 20).Draw(t, "after"), CoolMost: time.Minute,
			BlockAfter: 1 << 40, BlockWithin: time.Minute, BlockFor: time.Hour,
		}
		b := newBucket(5, rapid.SampledFrom([]int64{500, 100, 10}).Draw(t, "rate"))
		now := start
		for range rapid.IntRange(1, 200).Draw(t, "turns") {
			atOnce := rapid.Int64Range(1, terms.CoolAfter).Draw(t, "at once")
			var wait time.Duration
			for range atOnce {
				a := ask(&c, someKey(1), terms, b, now)
				if a.held.State != Free {
					t.Fatalf("held back: %+v", a.held)
				}
				wait = max(wait, a.wait)
			}
			late := rapid.IntRange(0, 30).Draw(t, "late")
			now = now.Add(max(wait, time.Millisecond) + time.Duration(late)*time.Millisecond)
		}
	})
}

// With cool-downs and blocks no more is admitted up to any instant than without.
func TestHoldingBackAdmitsNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Clients
		terms := Terms{
			CoolAfter: rapid.Int64Range(0, 20).Draw(t, "after"), CoolMost: time.Second,
			BlockAfter: rapid.Int64Range(0, 200).Draw(t, "block after"), BlockWithin: time.Second, BlockFor: 3 * time.Second,
		}
		with := newBucket(10, 100)
		without := *with
		now, admitted, before := start, 0, 0
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			if ask(&c, someKey(1), terms, with, now).allowed {
				admitted++
			}
			if ok, _ := without.take(now); ok {
				before++
			}
			if admitted > before {
				t.Fatalf("admitted %d, without %d", admitted, before)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "gap")) * time.Millisecond)
		}
	})
}

// A block begins with the denial that the rule names, never before, lasts as long as
// stated, and leaves a clean sheet.
func TestBlock(t *testing.T) {
	var c Clients
	terms := Terms{BlockAfter: 100, BlockWithin: time.Minute, BlockFor: 10 * time.Minute}
	key, now := someKey(1), start
	for round := range 2 {
		for i := range 100 {
			if h := c.Arrives(key, terms, now); h.State != Free {
				t.Fatalf("round %d, denial %d: %+v", round, i, h)
			}
			h := c.Denied(key, terms, time.Hour, now)
			if blocked := i == 99; h.Began != blocked || (h.State == Blocked) != blocked {
				t.Fatalf("round %d, denial %d: %+v", round, i, h)
			}
			now = now.Add(100 * time.Millisecond)
		}
		end := now.Add(-100 * time.Millisecond).Add(10 * time.Minute)
		for at := now; at < end; at = at.Add(time.Second) {
			if h := c.Arrives(key, terms, at); h.State != Blocked || h.Until != end || h.Began || h.For != 10*time.Minute {
				t.Fatalf("%v: %+v", at.Sub(now), h)
			}
		}
		now = end
	}
}

// However denials are spread, as many as a block takes came within its time.
func TestBlockIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Clients
		terms := Terms{BlockAfter: rapid.Int64Range(1, 50).Draw(t, "after"), BlockWithin: time.Second, BlockFor: time.Minute}
		now := start
		var denials []budget.Instant
		for range 300 {
			denials = append(denials, now)
			if c.Denied(someKey(1), terms, time.Millisecond, now).Began {
				first := len(denials) - int(terms.BlockAfter)
				if first < 0 || now.Sub(denials[first]) >= terms.BlockWithin {
					t.Fatalf("blocked after %v", denials)
				}
				return
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "gap")) * time.Millisecond)
		}
	})
}

// Denials during a cool-down count for the block.
func TestCoolDownLeadsToABlock(t *testing.T) {
	var c Clients
	terms := Terms{CoolAfter: 5, CoolMost: time.Minute, BlockAfter: 20, BlockWithin: time.Minute, BlockFor: time.Hour}
	key, now := someKey(1), start
	for range 6 {
		c.Denied(key, terms, time.Second, now)
	}
	for i := range 14 {
		h := c.Arrives(key, terms, now)
		if want := i == 13; h.Began != want || (h.State == Blocked) != want || h.State == Free {
			t.Fatalf("request %d: %+v", i, h)
		}
	}
}

// A flood of denied keys neither frees nor forgets a client that is held back, and takes
// no more memory than the first of them.
func TestFloodOfClients(t *testing.T) {
	var c Clients
	terms := Terms{CoolAfter: 1, CoolMost: time.Hour, BlockAfter: 1 << 40, BlockWithin: time.Hour, BlockFor: time.Hour}
	held := someKey(0)
	c.Denied(held, terms, time.Hour, start)
	if h := c.Denied(held, terms, time.Hour, start); h.State != Cooling {
		t.Fatalf("%+v", h)
	}
	flat(t, func() {
		for i := range uint64(flood) {
			now := start.Add(time.Duration(i))
			c.Arrives(someKey(1+i), terms, now)
			c.Denied(someKey(1+i), terms, time.Second, now)
		}
	})
	if h := c.Look(held, terms, start.Add(flood)); h.State != Cooling {
		t.Errorf("the flood freed it: %+v", h)
	}
	n := 0
	c.Each(func(uint32) Terms { return terms }, start.Add(flood), func(h Held) {
		if n++; h.Key != held || h.State != Cooling {
			t.Errorf("%+v", h)
		}
	})
	if n != 1 || c.Refused() != 0 {
		t.Errorf("%d are held back, %d refused", n, c.Refused())
	}
}

// A set whose places are all held back takes nobody in until one is free.
func TestFullSetOfHeldBack(t *testing.T) {
	var c Clients
	terms := Terms{BlockAfter: 1, BlockWithin: time.Second, BlockFor: time.Minute}
	key := func(n uint64) budget.KeyID {
		k := someKey(1)
		binary.LittleEndian.PutUint64(k.Hash[8:], n) // the same place
		return k
	}
	for i := range uint64(clientWays) {
		c.Denied(key(i), terms, time.Second, start.Add(time.Duration(i)*time.Second))
	}
	if h := c.Denied(key(99), terms, time.Second, start.Add(30*time.Second)); h.State != Free || c.Refused() != 1 {
		t.Errorf("%+v, %d refused", h, c.Refused())
	}
	if h := c.Denied(key(99), terms, time.Second, start.Add(time.Minute)); h.State != Blocked {
		t.Errorf("%+v", h)
	}
	if h := c.Look(key(1), terms, start.Add(time.Minute)); h.State != Blocked {
		t.Errorf("another was freed for it: %+v", h)
	}
}

func TestNobodyIsKnown(t *testing.T) {
	var c Clients
	terms := Terms{CoolAfter: 1, CoolMost: time.Second}
	if c.Arrives(someKey(1), terms, start) != (Hold{}) || c.Look(someKey(1), terms, start) != (Hold{}) || c.sets.Load() != nil {
		t.Error("a client is")
	}
	c.Each(func(uint32) Terms { return terms }, start, func(h Held) { t.Error(h) })
	for s, want := range map[State]string{Free: "free", Cooling: "cooling", Blocked: "blocked"} {
		if s.String() != want {
			t.Error(s)
		}
	}
}

func BenchmarkClientArrivesUnknown(b *testing.B) {
	var c Clients
	terms := Terms{CoolAfter: 100, CoolMost: time.Minute}
	c.Denied(someKey(0), terms, time.Second, start)
	b.ReportAllocs()
	for i := range b.N {
		c.Arrives(budget.KeyID{Rule: uint32(i)}, terms, start)
	}
}

func BenchmarkClientArrivesHeldBack(b *testing.B) {
	var c Clients
	terms := Terms{CoolAfter: 1, CoolMost: time.Hour}
	for range 2 {
		c.Denied(someKey(0), terms, time.Hour, start)
	}
	key := someKey(0)
	b.ReportAllocs()
	for b.Loop() {
		c.Arrives(key, terms, start)
	}
}

func BenchmarkClientDenied(b *testing.B) {
	var c Clients
	terms := Terms{CoolAfter: 100, CoolMost: time.Hour, BlockAfter: 1 << 40, BlockWithin: time.Minute, BlockFor: time.Minute}
	b.ReportAllocs()
	for i := range b.N {
		c.Denied(budget.KeyID{Rule: uint32(i)}, terms, time.Second, start)
	}
}
