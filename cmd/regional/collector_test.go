package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestHeapGrowsToTheLeastBeforeItIsCollected(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, mostPercent}, {1 * mib, mostPercent}, {8 * mib, 1500}, {32 * mib, 300},
		{64*mib - 1, 100}, {64 * mib, goPercent}, {1 << 40, goPercent},
	} {
		got := percentFor(c.live)
		if got != c.want {
			t.Errorf("%d MiB that live: %d %%, want %d", c.live/mib, got, c.want)
		}
		if most := max(leastHeap, 2*c.live); c.live+c.live*uint64(got)/100 > most {
			t.Errorf("%d MiB that live: the heap grows beyond %d MiB", c.live/mib, most/mib)
		}
	}
}

func TestCollectorFollowsWhatLives(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(goPercent)
	defer debug.SetGCPercent(before)
	paceCollector()
	adjusted := make(chan struct{}, 1)
	afterCollection(func() {
		select {
		case adjusted <- struct{}{}:
		default:
		}
	})
	held := make([]byte, leastHeap)
	for percent := 0; percent != goPercent; { // with so much that lives
		runtime.GC()
		<-adjusted
		percent = debug.SetGCPercent(goPercent)
		debug.SetGCPercent(percent)
	}
	runtime.KeepAlive(held)
	for percent := goPercent; percent == goPercent; { // with next to nothing
		runtime.GC()
		<-adjusted
		percent = debug.SetGCPercent(goPercent)
		debug.SetGCPercent(percent)
	}
}
