package penalty

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
)

// flat runs do, which sends flood different keys, and fails if more is kept, or much was
// allocated at all, than before.
func flat(t *testing.T, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.GC()
	runtime.ReadMemStats(&after)
	const slack = 256 << 10
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > slack {
		t.Errorf("%d bytes are kept", kept)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > slack {
		t.Errorf("%d bytes were allocated", made)
	}
}

// Three keys at known rates in a flood of keys that come once each: they are on top, in
// order, with their rates, and the flood takes no memory.
func TestHotKeysInAFlood(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	h := NewHotKeys(draw.Uint32)
	now := start
	flat(t, func() {
		for i := range uint64(flood) {
			now = start.Add(time.Duration(i) * 2 * time.Microsecond) // half a million a second
			h.Seen(someKey(1000+i), true, now)
			if i%10 == 0 {
				h.Seen(someKey(1), i%20 == 0, now) // 50,000 a second, one half denied
			}
			if i%100 == 0 {
				h.Seen(someKey(2), false, now) // 5,000 a second
			}
			if i%1000 == 0 {
				h.Seen(someKey(3), true, now) // 500 a second
			}
		}
	})
	top := h.Top(3, now)
	for i, want := range []HotKey{{someKey(1), 50_000, 25_000}, {someKey(2), 5_000, 0}, {someKey(3), 500, 500}} {
		got := top[i]
		if got.Key != want.Key || math.Abs(got.Checks/want.Checks-1) > 0.2 || math.Abs(got.Denied-want.Denied) > 0.2*want.Checks {
			t.Errorf("place %d: %.0f checks, %.0f denied a second, want %.0f and %.0f", i, got.Checks, got.Denied, want.Checks, want.Denied)
		}
	}
}

// At everyday rates every check is counted; rates are right from the first second on,
// and are gone within a minute.
func TestRatesAreCountedWhole(t *testing.T) {
	h := NewHotKeys(func() uint32 { t.Fatal("chance at 100 checks a second"); return 0 })
	now := start
	check := func(want float64) {
		t.Helper()
		top := h.Top(10, now)
		if len(top) != 1 || top[0].Key != someKey(7) || math.Abs(top[0].Checks-want) > 0.03*want+0.1 || top[0].Denied != 0 {
			t.Errorf("after %v: %+v, want %.1f", now.Sub(start), top, want)
		}
	}
	for i := range 10_000 {
		now = start.Add(time.Duration(i) * 10 * time.Millisecond)
		h.Seen(someKey(7), false, now)
		if i == 200 || i == 1000 || i == 9999 {
			check(100)
		}
	}
	now = now.Add(5 * time.Second)
	check(50)
	now = now.Add(time.Hour)
	check(0)
}

// A key of a few checks is not hot.
func TestFewChecksAreNotTold(t *testing.T) {
	h := NewHotKeys(rand.Uint32)
	for i := range uint64(1000) {
		for range hotHits - 1 {
			h.Seen(someKey(i%3), true, start.Add(time.Duration(i)))
		}
		h = NewHotKeys(rand.Uint32)
	}
	if top := h.Top(10, start); len(top) != 0 {
		t.Error(top)
	}
}

// Sampling follows the traffic up and down.
func TestSamplingFollows(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	h := NewHotKeys(draw.Uint32)
	now := start
	for range 3_000_000 {
		now = now.Add(time.Microsecond)
		h.Seen(someKey(1), false, now)
	}
	part := &h.shifts[placeOf(someKey(1))%hotSets]
	if shift := part.Load(); shift < 10 || shift > 13 {
		t.Errorf("a million checks a second: one in %d", 1<<shift)
	}
	for range 60_000 {
		now = now.Add(time.Millisecond)
		h.Seen(someKey(1), false, now)
	}
	if shift := part.Load(); shift > 4 {
		t.Errorf("a thousand checks a second: one in %d", 1<<shift)
	}
	if top := h.Top(1, now); math.Abs(top[0].Checks/1000-1) > 0.25 {
		t.Errorf("%.0f checks a second", top[0].Checks)
	}
}

// So many checks of a key at once count as many as one after the other do: while each is looked at, and when one in
// thousands is.
func TestChecksAtOnceCountAsOneByOne(t *testing.T) {
	draw, sizes := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(7, 8))
	together, apart := NewHotKeys(draw.Uint32), NewHotKeys(draw.Uint32)
	now, all := start, 0.
	for i := range 5000 {
		now = now.Add(time.Duration(sizes.IntN(1000)) * time.Microsecond)
		key, times, denied := someKey(uint64(i%3)), 1+sizes.Int32N(2000), i%2 == 0
		all += float64(times)
		together.SeenTimes(key, times, denied, now)
		for range times {
			apart.Seen(key, denied, now)
		}
	}
	want := all / 3 / now.Sub(start).Seconds()
	for name, h := range map[string]*HotKeys{"together": together, "apart": apart} {
		if shift := h.shifts[placeOf(someKey(0))%hotSets].Load(); shift < 8 {
			t.Errorf("%s: one in %d is a sample", name, 1<<shift)
		}
		for _, got := range h.Top(3, now) {
			if math.Abs(got.Checks/want-1) > .1 || math.Abs(got.Denied/want-.5) > .1 {
				t.Errorf("%s: %.0f checks a second of a key, %.0f denied, want %.0f and half of them", name, got.Checks, got.Denied, want)
			}
		}
	}
	before := together.Top(10, now)
	together.SeenTimes(someKey(9), 0, true, now)
	if got := together.Top(10, now); !slices.Equal(got, before) {
		t.Errorf("no check at all counted: %+v, want %+v", got, before)
	}
}

// TestSamplesStandForTheirChecks: whatever part of the checks are samples, what they stand for is as many on average.
func TestSamplesStandForTheirChecks(t *testing.T) {
	draw := rand.New(rand.NewPCG(9, 10))
	for _, times := range []int32{1, 3, 64, 1000} {
		h := NewHotKeys(draw.Uint32)
		at := placeOf(someKey(1)) % hotSets
		set := &h.sets[at]
		h.shifts[at].Store(7)
		const calls = 20_000
		for range calls {
			h.SeenTimes(someKey(1), times, false, start)
			set.samples = sampledLeast // so that the part stays as it is
		}
		want := float64(calls) * float64(times)
		if got := set.keys[0].checks; math.Abs(got/want-1) > 5/math.Sqrt(want/128) {
			t.Errorf("%d at a time: %.0f counted, want %.0f", times, got, want)
		}
	}
}

func TestHotKeysAtOnce(t *testing.T) {
	h := NewHotKeys(rand.Uint32)
	var clients Clients
	terms := Terms{CoolAfter: 3, CoolMost: time.Second, BlockAfter: 50, BlockWithin: time.Second, BlockFor: time.Second}
	var all sync.WaitGroup
	for w := range uint64(4) {
		all.Go(func() {
			for i := range uint64(5000) {
				key, now := someKey(i%(2+w)), start.Add(time.Duration(i)*time.Millisecond)
				h.Seen(key, true, now)
				if clients.Arrives(key, terms, now).State == Free {
					clients.Denied(key, terms, time.Second, now)
				}
				if i%1000 == 0 {
					h.Top(3, now)
					clients.Each(func(uint32) Terms { return terms }, now, func(Held) {})
				}
			}
		})
	}
	all.Wait()
	if top := h.Top(1, start.Add(5*time.Second)); len(top) != 1 || top[0].Checks < 1000 {
		t.Error(top)
	}
}

func BenchmarkHotKeysOneKey(b *testing.B) {
	h := NewHotKeys(rand.Uint32)
	key, now := someKey(1), start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		h.Seen(key, false, now)
	}
}

func BenchmarkHotKeysFlood(b *testing.B) {
	h := NewHotKeys(rand.Uint32)
	now := start
	keys := make([]budget.KeyID, 1<<16)
	for i := range keys {
		keys[i] = someKey(uint64(i))
	}
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(time.Microsecond)
		h.Seen(keys[i%len(keys)], false, now)
	}
}
