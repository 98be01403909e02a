package store

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// TestSizes prints what a key takes, in Redis and in memory: the table of
// docs/reference/algorithms.md. go test ./regional/store -run TestSizes -v
func TestSizes(t *testing.T) {
	s := openRedis(t, redistest.Start(t))
	epoch := learn(t, s)
	t.Logf("%-22s %5s %6s %6s %8s", "algorithm", "in it", "cold", "hot", "memory")
	for _, a := range everyAlgorithm {
		for _, n := range []int{1, 10, 100, 1000} {
			if !a.Logs() && n > 1 {
				continue
			}
			cold, hot := redisBytes(t, s, epoch, a, n)
			t.Logf("%-22s %5d %6d %6d %8d", a, n, cold, hot, memoryBytes(t, a, n))
			if most := largest(a, n); cold > most || hot > most+50 {
				t.Errorf("%v: a key with %d in it takes %d bytes, hot %d; at most %d", a, n, cold, hot, most)
			}
		}
	}
}

// largest is the most that a cold key may take in Redis.
func largest(a limit.Algorithm, n int) int64 {
	switch {
	case !a.Counts():
		return 149
	case a == limit.SlidingLog:
		return 200 + 8*int64(n)
	case a == limit.Concurrency:
		return 200 + 40*int64(n)
	default:
		return 170
	}
}

// redisBytes is what a key takes after so many admissions spread over the window, the
// key's own name and its time to live included. The record is the reference's, which the
// scripts write to the letter.
func redisBytes(t *testing.T, s *Redis, epoch string, a limit.Algorithm, n int) (cold, hot int64) {
	t.Helper()
	v := viewOf(epoch, a, 1000, time.Minute)
	records, now := make([]limit.Record, 1), int64(1_800_000_000_000_000)
	for i := range n {
		if a == limit.Concurrency {
			v.Slot = 1<<40 + uint64(i)
		}
		now += time.Minute.Microseconds() / int64(n+1)
		if !limit.Take(records, []limit.View{v}, limit.Token, now, make([]limit.Outcome, 1)) {
			t.Fatalf("%v: denied", a)
		}
	}
	r, _ := limit.Apply(records[0], limit.Change{View: v, Gen: 1<<32 + 7, Share: v.Floor}, now)
	ctx, key := context.Background(), keyOf(a, n)
	s.client().Set(ctx, key, lua.FormatRecord(a, records[0]), time.Minute)
	cold = s.client().MemoryUsage(ctx, key).Val()
	s.client().Set(ctx, key, lua.FormatRecord(a, r), 0)
	return cold, s.client().MemoryUsage(ctx, key).Val()
}

// memoryBytes is what a cold key of an embedded store takes, so many admissions in it.
func memoryBytes(t *testing.T, a limit.Algorithm, n int) int64 {
	t.Helper()
	keys := 50_000 / n
	m, c, epoch := newMemory(t, 1_000_000)
	v := viewOf(epoch, a, 1000, time.Minute)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		c.us.Add(1)
		for k := range keys {
			if a == limit.Concurrency {
				v.Slot = uint64(c.us.Load())
			}
			if _, _, err := m.Take(context.Background(), epoch, one(keyOf(a, k), 1, v)); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	return int64(after.HeapAlloc-before.HeapAlloc) / int64(keys)
}

// One check is one script call, whatever the algorithms of its limits: it reads the epoch
// and each record once, and writes each once.
func TestCallsPerCheck(t *testing.T) {
	s := openRedis(t, redistest.Start(t))
	epoch := learn(t, s)
	group := Group{Cost: limit.Token}
	for _, a := range everyAlgorithm {
		group.Limits = append(group.Limits, KeyView{Key: keyOf(a, 1), View: viewOf(epoch, a, 10, time.Minute)})
	}
	for _, warm := range []bool{false, true} {
		s.client().ConfigResetStat(t.Context())
		if got, _, err := s.Take(t.Context(), epoch, []Group{group}); err != nil || !got[0].Allowed {
			t.Fatalf("%+v, %v", got, err)
		}
		if warm {
			stats := s.client().Info(t.Context(), "commandstats").Val()
			for command, want := range map[string]int{"evalsha": 1, "eval": 0, "get": 1 + len(everyAlgorithm), "set": len(everyAlgorithm)} {
				if got := callsOf(stats, command); got != want {
					t.Errorf("%d calls of %s, want %d", got, command, want)
				}
			}
		}
	}
}

// callsOf is how often a command was called, by INFO commandstats.
func callsOf(stats, command string) (n int) {
	if _, rest, found := strings.Cut(stats, "cmdstat_"+command+":calls="); found {
		fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n)
	}
	return n
}
