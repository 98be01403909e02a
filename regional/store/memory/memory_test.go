package memory

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/limit"
	"aliquot/lua"
)

const second = int64(1_000_000)

// clock is a clock that tests set.
type clock struct{ us atomic.Int64 }

func newMemory(t testing.TB, maxKeys int) (*Store, *clock, string) {
	t.Helper()
	c := &clock{}
	c.us.Store(1000 * second)
	m, err := New(Config{MaxKeys: maxKeys, Clock: c.us.Load})
	if err != nil {
		t.Fatal(err)
	}
	epoch, _ := m.Epoch(context.Background())
	return m, c, epoch
}

func (c *clock) wait(seconds int64) { c.us.Add(seconds * second) }

func TestMemoryRefillsAndExpires(t *testing.T) {
	m, c, epoch := newMemory(t, 0)
	floor := bucket(10, 1)
	if !admit(t, m, epoch, key(1), 10, floor) || admit(t, m, epoch, key(1), 1, floor) {
		t.Fatal("a cold bucket is full once")
	}
	c.wait(4)
	if admit(t, m, epoch, key(1), 5, floor) || !admit(t, m, epoch, key(1), 4, floor) {
		t.Fatal("four seconds earn four tokens")
	}
	c.wait(1000)
	for range sweepPuts { // other keys' writes sweep it away
		admit(t, m, epoch, key(1+shardCount), 1, floor)
	}
	if n := m.cold(); n != 1 {
		t.Fatalf("%d cold records after one has expired, want 1", n)
	}
	if !admit(t, m, epoch, key(1), 10, floor) {
		t.Fatal("an expired bucket is a full one")
	}
}

// TestMemoryDecidesNothingAfterTheDeadline: a call comes in time, and waits for a lock until
// it is late.
func TestMemoryDecidesNothingAfterTheDeadline(t *testing.T) {
	m, c, epoch := newMemory(t, 0)
	all := ^uint64(0)
	view := coldView(epoch, bucket(10, 1))
	view.Deadline = c.us.Load() + second
	parts := []lua.Part{{Key: key(1), Adjustment: limit.Adjustment{View: view, Used: limit.Token, Debt: limit.Token}}}
	failed := make(chan error)
	m.lock(all)
	go func() {
		_, _, err := m.Take(context.Background(), epoch, one(key(1), 1, view))
		failed <- err
	}()
	go func() {
		_, err := m.Adjust(context.Background(), epoch, parts)
		failed <- err
	}()
	c.wait(2)
	m.unlock(all)
	for range 2 {
		if err := <-failed; !errors.As(err, new(*lua.LateError)) {
			t.Errorf("a second after its deadline: %v", err)
		}
	}
}

// TestMemoryIsPausedBetweenTwoGroups of a call, until its deadline has passed: the first one is decided, and the second
// one charges nothing. The call as a whole is not late, because its caller would repeat a late one.
func TestMemoryIsPausedBetweenTwoGroups(t *testing.T) {
	readings := []int64{1000 * second, 1000 * second, 1002 * second} // at the store's start, and for each group
	m, err := New(Config{Clock: func() int64 {
		now := readings[0]
		readings = readings[min(1, len(readings)-1):]
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	view := coldView(m.epoch, bucket(10, 0))
	view.Deadline = 1001 * second
	got, now, err := m.Take(t.Context(), m.epoch, append(one(key(1), 1, view), one(key(2), 1, view)...))
	if err != nil || now != 1000*second || !got[0].Allowed || got[0].Limits[0].Tokens != 9*limit.Token {
		t.Fatalf("%+v at %d, %v", got, now, err)
	}
	if late := got[1].Undecided[0]; got[1].Allowed || late != got[1].Err || !errors.As(late, new(*lua.LateError)) {
		t.Errorf("the second: %+v", got[1])
	}
	view.Deadline = 0
	got, _, err = m.Take(t.Context(), m.epoch, append(one(key(1), 1, view), one(key(2), 1, view)...))
	if err != nil || got[0].Limits[0].Tokens != 8*limit.Token || got[1].Limits[0].Tokens != 9*limit.Token {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

func (m *Store) cold() (n int) {
	for i := range m.shards {
		n += len(m.shards[i].cold)
	}
	return n
}

func TestMemoryBadCalls(t *testing.T) {
	m, _, epoch := newMemory(t, 0)
	ctx := context.Background()
	v := coldView(epoch, bucket(10, 1))
	var other *lua.EpochError
	if _, _, err := m.Take(ctx, "another", one(key(1), 1, v)); !errors.As(err, &other) || other.Actual != epoch {
		t.Fatalf("another epoch: %v", err)
	}
	if _, _, err := m.Apply(ctx, "another", nil); !errors.As(err, &other) {
		t.Fatalf("another epoch: %v", err)
	}
	bad := map[string][]lua.Group{
		"cost 0":           one(key(1), 0, v),
		"no limits":        {{Cost: 1}},
		"not a key":        one("aq:{x}:1:b", 1, v),
		"the same twice":   {{Cost: 1, Limits: []lua.KeyView{{Key: key(1), View: v}, {Key: key(1), View: v}}}},
		"stamp":            one(key(1), 1, limit.View{Floor: bucket(1, 1), Stamp: v.Stamp + 1}),
		"a huge bucket":    one(key(1), 1, coldView(epoch, bucket(2_000_000_000, 1))),
		"hot without gen":  one(key(1), 1, limit.View{Hot: true, Floor: bucket(1, 1), Stamp: v.Stamp}),
		"different phases": {one(key(1), 1, v)[0], one(key(1), 1, limit.View{Floor: bucket(1, 1), Stamp: v.Stamp})[0]},
	}
	for name, groups := range bad {
		if _, _, err := m.Take(ctx, epoch, groups); !errors.Is(err, lua.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := m.Take(cancelled, epoch, one(key(1), 1, v)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	for _, c := range []Config{{}, {Clock: func() int64 { return 0 }}, {Clock: func() int64 { return 1 }, MaxKeys: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestMemoryHotAndBack(t *testing.T) {
	m, c, epoch := newMemory(t, 0)
	ctx := context.Background()
	floor, share := bucket(10, 1), bucket(20, 2)
	v := coldView(epoch, floor)
	admit(t, m, epoch, key(1), 4, floor)
	change := lua.Change{Key: key(1), Change: limit.Change{View: v, Gen: 1, Share: share, Grant: 3 * limit.Token}}
	applied, _, err := m.Apply(ctx, epoch, []lua.Change{change, change})
	if err != nil || applied[0].Tokens != 9*limit.Token || !applied[1].Stale {
		t.Fatalf("%+v, %v", applied, err)
	}
	c.wait(1_000_000)
	hot := v
	hot.Hot, hot.Gen, hot.Share = true, 1, share
	got, _, err := m.Take(ctx, epoch, one(key(1), 20, hot))
	if err != nil || !got[0].Allowed || got[0].Limits[0].Amnesia {
		t.Fatalf("a hot record does not expire: %+v, %v", got, err)
	}
	back := lua.Change{Key: key(1), Change: limit.Change{View: hot, Gen: 2, Share: floor, Cold: true}}
	if _, _, err := m.Apply(ctx, epoch, []lua.Change{back}); err != nil {
		t.Fatal(err)
	}
	if applied, _, _ = m.Apply(ctx, epoch, []lua.Change{change}); !applied[0].Stale {
		t.Fatalf("a stuck command made a cold key hot: %+v", applied)
	}
	c.wait(1000)
	for i := range 10 {
		admit(t, m, epoch, key(1+shardCount*(i+1)), 1, floor)
	}
	if n := len(m.shards[1].hot.records); n != 0 {
		t.Fatalf("%d fences left after they have expired", n)
	}
}

func TestMemoryGroupsAreAllOrNothing(t *testing.T) {
	m, _, epoch := newMemory(t, 0)
	v := coldView(epoch, bucket(10, 1))
	admit(t, m, epoch, key(2), 8, v.Floor)
	both := []lua.Group{{Cost: 3 * limit.Token, Limits: []lua.KeyView{{Key: key(1), View: v}, {Key: key(2), View: v}}}}
	got, _, err := m.Take(context.Background(), epoch, both)
	if err != nil || got[0].Allowed || got[0].Limits[0].Tokens != 10*limit.Token || got[0].Limits[1].Tokens != 2*limit.Token {
		t.Fatalf("%+v, %v", got, err)
	}
	// A later group of one call sees what an earlier one took.
	twice := append(one(key(3), 6, v), one(key(3), 6, v)...)
	if got, _, _ = m.Take(context.Background(), epoch, twice); !got[0].Allowed || got[1].Allowed {
		t.Fatalf("%+v", got)
	}
}

// A flood of keys beyond the room neither grows the store nor hands out free
// buckets, and it passes.
func TestMemoryFull(t *testing.T) {
	m, c, epoch := newMemory(t, shardCount) // one record a shard
	floor := bucket(10, 1)
	admit(t, m, epoch, key(0), 10, floor)
	admitted := 0
	for i := range 1000 { // all of shard 0, which is full
		if admit(t, m, epoch, key((i+1)*shardCount), 1, floor) {
			admitted++
		}
	}
	if admitted != 10 {
		t.Fatalf("1000 strangers were admitted %d times, one bucket holds 10", admitted)
	}
	if admit(t, m, epoch, key(0), 1, floor) {
		t.Fatal("a record that is not full was evicted")
	}
	vip := bucket(100, 10)
	if !admit(t, m, epoch, key(5*shardCount), 50, vip) {
		t.Fatal("buckets of another size share another overflow bucket")
	}
	if n := m.cold(); n > shardCount {
		t.Fatalf("%d records, room for %d", n, shardCount)
	}
	c.wait(5)
	if admit(t, m, epoch, key(7*shardCount), 6, floor) || !admit(t, m, epoch, key(8*shardCount), 5, floor) {
		t.Fatal("the overflow bucket refills like one client's")
	}
	c.wait(10) // key 0 has expired, the overflow bucket not
	if !admit(t, m, epoch, key(9*shardCount), 10, floor) || admit(t, m, epoch, key(9*shardCount), 1, floor) {
		t.Fatal("once there is room, a key gets a record of its own")
	}
	c.wait(1000)
	if !admit(t, m, epoch, key(10*shardCount), 10, floor) {
		t.Fatal("afterwards all is as before")
	}
	if n := len(m.shards[0].overflow.records); n > 1 {
		t.Fatalf("%d overflow buckets left", n)
	}
}

// A key that spent from an overflow bucket does not get a full one of its own.
func TestMemoryOverflowIsNoFreeBucket(t *testing.T) {
	m, c, epoch := newMemory(t, shardCount)
	floor := bucket(10, 1)
	admit(t, m, epoch, key(0), 1, floor) // full again in 1 s: expires soon
	if !admit(t, m, epoch, key(shardCount), 10, floor) {
		t.Fatal("the overflow bucket starts full")
	}
	c.wait(3) // room again, but the overflow bucket holds 3
	if admit(t, m, epoch, key(shardCount), 4, floor) || !admit(t, m, epoch, key(shardCount), 3, floor) {
		t.Fatal("it starts with what the overflow bucket holds")
	}
}

// Nor does a change of the floor give it one: what it spent stands under the old one.
func TestMemoryOverflowOfAnEarlierFloor(t *testing.T) {
	m, c, epoch := newMemory(t, shardCount)
	v := coldView(epoch, bucket(10, 1))
	take := func(n int, cost int64, v limit.View) bool {
		t.Helper()
		got, _, err := m.Take(context.Background(), epoch, one(key(n), cost, v))
		if err != nil {
			t.Fatal(err)
		}
		return got[0].Allowed
	}
	take(0, 10, v) // its shard is full for 10 s
	if !take(shardCount, 10, v) {
		t.Fatal("the overflow bucket starts full")
	}
	c.wait(1)
	v.Floor, v.Low, v.FloorSince = bucket(20, 2), v.Floor, c.us.Load()
	if take(shardCount, 1, v) {
		t.Fatal("a change of the floor gave the key a new overflow bucket")
	}
	c.wait(3)
	if take(shardCount, 7, v) || !take(shardCount, 6, v) {
		t.Fatal("it earns from the change on")
	}
	c.wait(20) // room again
	if !take(2*shardCount, 20, v) {
		t.Fatal("afterwards all is as before")
	}
}

func TestMemoryHotIsBounded(t *testing.T) {
	m, _, epoch := newMemory(t, shardCount)
	v := coldView(epoch, bucket(10, 1))
	change := func(n int) []lua.Change {
		return []lua.Change{{Key: key(n), Change: limit.Change{View: v, Gen: 1, Share: v.Floor}}}
	}
	if _, _, err := m.Apply(context.Background(), epoch, change(0)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Apply(context.Background(), epoch, change(shardCount)); !errors.Is(err, ErrFull) {
		t.Fatalf("room for one, got %v", err)
	}
	hot := v
	hot.Hot, hot.Gen, hot.Share = true, 1, v.Floor
	got, _, err := m.Take(context.Background(), epoch, one(key(2*shardCount), 1, hot))
	if err != nil || got[0].Allowed || !got[0].Limits[0].Amnesia {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Expiry, sweeping and the maps' moves are not to be seen: the answers are those of
// plain records that stay for ever.
func TestMemoryIsTransparent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clock{}
		c.us.Store(1000 * second)
		m, err := New(Config{Clock: c.us.Load})
		if err != nil {
			t.Fatal(err)
		}
		epoch, _ := m.Epoch(context.Background())
		records, views := make([]limit.Record, 6), make([]limit.View, 6)
		for i := range views {
			views[i] = coldView(epoch, bucket(int64(3+i), int64(i)))
			if i%2 == 1 {
				views[i].Extra = limit.Tokens(2*i) * limit.Token
			}
		}
		gen := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.us.Add(rapid.Int64Range(0, 1<<rapid.IntRange(1, 25).Draw(t, "shift")).Draw(t, "us"))
			i := rapid.IntRange(0, len(views)-1).Draw(t, "key")
			name := key(i * shardCount)
			if rapid.IntRange(0, 3).Draw(t, "op") > 0 {
				cost := rapid.Int64Range(1, 4).Draw(t, "cost")
				got, now, err := m.Take(context.Background(), epoch, one(name, cost, views[i]))
				out := make([]limit.Outcome, 1)
				want := limit.Take(records[i:i+1], views[i:i+1], limit.Tokens(cost)*limit.Token, now, out)
				if err != nil || got[0].Allowed != want || got[0].Limits[0] != out[0] {
					t.Fatalf("key %d: %+v, %v; want %v %+v", i, got, err, want, out)
				}
				continue
			}
			gen++
			change := limit.Change{View: views[i], Gen: gen, Cold: rapid.Bool().Draw(t, "cold")}
			if change.Share = views[i].Floor; !change.Cold {
				change.Share = bucket(rapid.Int64Range(0, 9).Draw(t, "cap"), rapid.Int64Range(0, 3).Draw(t, "rate"))
			}
			got, now, err := m.Apply(context.Background(), epoch, []lua.Change{{Key: name, Change: change}})
			var want limit.Applied
			records[i], want = limit.Apply(records[i], change, now)
			if err != nil || got[0] != want {
				t.Fatalf("key %d: %+v, %v; want %+v", i, got, err, want)
			}
			views[i].Hot, views[i].Gen, views[i].Share = !change.Cold, gen, change.Share
		}
	})
}

// Many goroutines on few keys: exactly the bucket and what it earned is admitted.
func TestMemoryConcurrent(t *testing.T) {
	m, c, epoch := newMemory(t, 0)
	floor := bucket(1000, 100)
	v := coldView(epoch, floor)
	const keys, workers, rounds = 4, 8, 1500
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				a, b := (w+i)%keys, (w+i+1)%keys
				g := []lua.Group{{Cost: limit.Token, Limits: []lua.KeyView{{Key: key(a), View: v}, {Key: key(b), View: v}}}}
				got, _, err := m.Take(context.Background(), epoch, g)
				if err != nil {
					t.Error(err)
					return
				}
				if got[0].Allowed {
					admitted[a].Add(1)
					admitted[b].Add(1)
				}
				c.us.Add(100)
			}
		})
	}
	wg.Wait()
	elapsed := c.us.Load() - 1000*second
	most := 1000 + 100*elapsed/second
	total := int64(0)
	for i := range admitted {
		n := admitted[i].Load()
		total += n
		if n > most {
			t.Errorf("key %d: admitted %d of %d", i, n, most)
		}
	}
	if total < keys*most*9/10 {
		t.Errorf("admitted %d in all, of %d", total, keys*most)
	}
}

func TestMemoryBytesPerKey(t *testing.T) {
	const n = 500_000
	c := &clock{}
	c.us.Store(second)
	m, err := New(Config{Clock: c.us.Load})
	if err != nil {
		t.Fatal(err)
	}
	epoch, _ := m.Epoch(context.Background())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	floor := bucket(100, 1)
	for i := range n {
		admit(t, m, epoch, key(i), 1, floor)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes a key at %d keys", (after.HeapAlloc-before.HeapAlloc)/n, n)
	if perKey := (after.HeapAlloc - before.HeapAlloc) / n; perKey > 105 {
		t.Fatalf("%d bytes a key", perKey)
	}
	runtime.KeepAlive(m)
}

func BenchmarkMemoryTake(b *testing.B) {
	m, err := New(Config{Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		b.Fatal(err)
	}
	epoch, _ := m.Epoch(context.Background())
	v := coldView(epoch, bucket(1_000_000, 1000))
	groups := make([][]lua.Group, 4096)
	for i := range groups {
		groups[i] = one(key(i), 1, v)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			m.Take(context.Background(), epoch, groups[i%len(groups)])
		}
	})
}
