package memory

import (
	"slices"
	"testing"
	"time"

	"aliquot/limit"
)

var countedAlgorithms = slices.DeleteFunc(limit.Algorithms(), func(a limit.Algorithm) bool { return !a.Counts() })

// takeAt is a take of whole tokens of a cold key of an algorithm.
func takeAt(t *testing.T, m *Store, epoch string, a limit.Algorithm, n int, cost, most int64) (bool, limit.Outcome) {
	t.Helper()
	v := viewOf(epoch, a, most, time.Minute)
	if a == limit.Concurrency {
		v.Slot = uint64(m.clock())
	}
	return takeOne(t, m, epoch, keyOf(a, n), cost, v)
}

// sizes are the records of limits that count, and the entries in them.
func (m *Store) sizes() (records, entries int) {
	for i := range m.shards {
		s := &m.shards[i]
		records += len(s.counted.records) + len(s.overflow.records)
		entries += s.entries
	}
	return records, entries
}

// A flood of keys neither grows the store nor gets more than one client, and it passes.
func TestMemoryFullOfWindows(t *testing.T) {
	for _, a := range countedAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			m, c, epoch := newMemory(t, shardCount) // one record a shard
			if ok, _ := takeAt(t, m, epoch, a, 0, 4, 4); !ok {
				t.Fatal("a new key has nothing in use")
			}
			admitted := 0
			for i := range 100 { // all of the shard of key 0, which is full
				c.us.Add(1)
				if ok, _ := takeAt(t, m, epoch, a, (i+1)*shardCount, 1, 4); ok {
					admitted++
				}
			}
			// Entries fill the shard sooner than the overflow record does.
			if want := map[bool]int{true: entriesEach - 1, false: 4}[a.Logs()]; admitted != want {
				t.Fatalf("100 strangers were admitted %d times, not %d", admitted, want)
			}
			if ok, out := takeAt(t, m, epoch, a, 0, 1, 4); ok || out.Retry <= 0 {
				t.Fatalf("a record that counts was evicted: %+v", out)
			}
			if records, entries := m.sizes(); records > 2 || entries > entriesEach {
				t.Fatalf("%d records, %d entries", records, entries)
			}
			c.wait(200)
			for i := range 10 {
				c.us.Add(1)
				if ok, _ := takeAt(t, m, epoch, a, (i+200)*shardCount, 1, 4); i < entriesEach && !ok {
					t.Fatal("afterwards all is as before")
				}
			}
		})
	}
}

// An expired record leaves with its entries, also that of a key that was hot.
func TestMemoryForgetsUse(t *testing.T) {
	for _, a := range countedAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			m, c, epoch := newMemory(t, 0)
			for i := range 50 {
				c.us.Add(1)
				if ok, _ := takeAt(t, m, epoch, a, i*shardCount, 2, 4); !ok {
					t.Fatal("denied")
				}
			}
			v := viewOf(epoch, a, 4, time.Minute)
			applyOne(t, m, epoch, keyOf(a, 0), limit.Change{View: v, Gen: 1, Share: v.Floor})
			v.Hot, v.Gen, v.Share = true, 1, v.Floor
			if got := applyOne(t, m, epoch, keyOf(a, 0), limit.Change{View: v, Gen: 2, Share: v.Floor, Cold: true}); got.InUse != 2*limit.Token {
				t.Fatalf("%+v", got)
			}
			c.wait(1000)
			for i := range 100 {
				c.us.Add(1)
				takeAt(t, m, epoch, a, (1000+i%2)*shardCount, 1, 4)
			}
			records, entries := m.sizes()
			if hot := len(m.shards[0].hot.records); records != 2 || hot != 0 || entries > 8 {
				t.Fatalf("%d records, %d of them once hot, %d entries are left", records, hot, entries)
			}
		})
	}
}
