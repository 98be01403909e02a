package cluster

import (
	"testing"
	"time"
)

// TestAStarvedLeaderIsNotAStuckOne: ticks in which the process woke up late are excused, for a while.
func TestAStarvedLeaderIsNotAStuckOne(t *testing.T) {
	var s starvation
	if s.excuses(time.Second) {
		t.Error("a process that woke up in time is excused")
	}
	s.woke(99 * time.Millisecond)
	if s.excuses(time.Second) {
		t.Error("a process that woke up a little late is excused")
	}
	for i := range maxExcused {
		s.woke(100 * time.Millisecond)
		s.woke(time.Millisecond)
		if !s.excuses(time.Second) {
			t.Fatalf("a starved process is not excused the time %d", i)
		}
		if s.excuses(time.Second) {
			t.Fatal("the tick after it is excused too")
		}
	}
	s.woke(time.Minute)
	if s.excuses(time.Second) {
		t.Error("starvation excuses for ever")
	}
}
