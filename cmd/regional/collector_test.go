package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// TestBallastRaisesTheHeapAtWhichTheCollectorRuns reads the collector's goal.
func TestBallastRaisesTheHeapAtWhichTheCollectorRuns(t *testing.T) {
	t.Setenv("GOGC", "")
	b := newBallast()
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*leastLive {
		t.Errorf("the collector runs at %d bytes, want at least %d", got, 2*leastLive)
	}
	runtime.KeepAlive(b)
}

// TestTheEnvironmentLeavesOutTheBallast: a pace of the collector, or a small limit, holds as it was set.
func TestTheEnvironmentLeavesOutTheBallast(t *testing.T) {
	for _, c := range []struct {
		gogc  string
		limit int64
		want  int
	}{
		{"", math.MaxInt64, leastLive / pieceBytes},
		{"", roomyLimit, leastLive / pieceBytes},
		{"", roomyLimit - 1, 0},
		{"100", math.MaxInt64, 0},
	} {
		t.Setenv("GOGC", c.gogc)
		before := debug.SetMemoryLimit(c.limit) // as GOMEMLIMIT does when the process starts
		got := len(newBallast().pieces)
		debug.SetMemoryLimit(before)
		if got != c.want {
			t.Errorf("GOGC=%q, GOMEMLIMIT=%d: %d pieces, want %d", c.gogc, c.limit, got, c.want)
		}
	}
}

// TestBallastGivesWay: it drops what is too much, once for what the collector has found.
func TestBallastGivesWay(t *testing.T) {
	t.Setenv("GOGC", "")
	b := newBallast()
	all := len(b.pieces)
	for _, c := range []struct {
		collections, live uint64
		want              int
	}{
		{1, leastLive, all},
		{2, leastLive + pieceBytes - 1, all},
		{3, leastLive + 5*pieceBytes, all - 5},
		{3, leastLive + 5*pieceBytes, all - 5}, // of the same collection
		{4, leastLive + 5*pieceBytes, all - 5}, // had begun before
		{5, leastLive + 2*pieceBytes, all - 7},
		{7, leastLive / 2, all - 7},
		{8, 3 * leastLive, 0},
	} {
		b.adjust(c.collections, c.live)
		if got := len(b.pieces); got != c.want {
			t.Errorf("after %d collections with %d bytes: %d pieces, want %d", c.collections, c.live, got, c.want)
		}
	}
}
