package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestHeapGrowsToTheLeastBeforeItIsCollected(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, beside uint64
		want         int
	}{
		{0, 0, mostPercent}, {1 * mib, 0, mostPercent}, {8 * mib, 0, 1500}, {32 * mib, 0, 300},
		{64*mib - 1, 0, 100}, {64 * mib, 0, goPercent}, {1 << 40, 0, goPercent},
		{8 * mib, 20 * mib, 428}, {8 * mib, 112 * mib, 100}, {8 * mib, 500 * mib, goPercent},
	} {
		got := percentFor(c.live, c.beside)
		if got != c.want {
			t.Errorf("%d MiB that live beside %d: %d %%, want %d", c.live/mib, c.beside/mib, got, c.want)
		}
		byGo := c.live + (c.live+c.beside)*goPercent/100
		if most := max(leastHeap, byGo); c.live+(c.live+c.beside)*uint64(got)/100 > most {
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
