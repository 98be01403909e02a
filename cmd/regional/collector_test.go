package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestBallastRaisesTheHeapAtWhichTheCollectorRuns compares the collector's goal with and without the ballast.
func TestBallastRaisesTheHeapAtWhichTheCollectorRuns(t *testing.T) {
	for gogc, want := range map[string]int{"": ballastBytes, "100": 0} {
		t.Setenv("GOGC", gogc)
		if got := len(ballast()); got != want {
			t.Errorf("GOGC=%q: a ballast of %d bytes, want %d", gogc, got, want)
		}
	}
	t.Setenv("GOGC", "")
	kept := ballast()
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*ballastBytes {
		t.Errorf("the collector runs at %d bytes, want at least %d", got, 2*ballastBytes)
	}
	runtime.KeepAlive(kept)
}
