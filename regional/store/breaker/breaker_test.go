package breaker

import (
	"testing"
	"time"
)

// TestBreaker: a node that fails is first asked by one at a time, then left alone but for a trial
// each half second.
func TestBreaker(t *testing.T) {
	const had = 100 * time.Millisecond
	now := time.UnixMilli(0)
	var b Breaker
	fails := func() Transition {
		t.Helper()
		if err := b.Enter(now, true); err != nil {
			t.Fatalf("not asked: %v", err)
		}
		return b.Leave(now, true, had, had)
	}
	for range SuspectAfter {
		if fails() != Same {
			t.Fatal("opened too soon")
		}
	}
	if b.Enter(now, true) != nil || b.Enter(now, true) == nil {
		t.Fatal("a node that failed gets one call at a time")
	}
	b.Leave(now, true, had, had)
	if fails() != Opened || !b.Open() {
		t.Fatal("not open after 5 failures in a row")
	}
	for range 10 {
		now = now.Add(TrialEvery - time.Millisecond)
		if b.Enter(now, true) == nil {
			t.Fatalf("asked before %v", TrialEvery)
		}
		now = now.Add(time.Millisecond)
		if b.Enter(now, false) == nil {
			t.Fatal("a call for which a caller waits tries it")
		}
		if fails() != Same {
			t.Fatal("told twice that it is open")
		}
	}
	now = now.Add(TrialEvery)
	if b.Enter(now, true) != nil || b.Leave(now, false, 0, had) != Closed || b.Open() {
		t.Fatal("not closed by a good call")
	}
	for range 3 {
		if b.Enter(now, false) != nil {
			t.Fatal("a well node gets as many calls as come")
		}
	}
}

// TestBreakerStarved: what this process noticed late is no failure of a node that
// answered recently.
func TestBreakerStarved(t *testing.T) {
	const had = 100 * time.Millisecond
	now := time.UnixMilli(0)
	var b Breaker
	b.Enter(now, true)
	b.Leave(now, false, 0, had)
	for range 2 * TripAfter {
		if b.Enter(now, true) != nil {
			t.Fatal("suspected for what this process did")
		}
		b.Leave(now, true, had+had/lateBy+time.Millisecond, had)
	}
	now = now.Add(excusedFor)
	for range TripAfter {
		b.Enter(now, true)
		b.Leave(now, true, 2*had, had)
	}
	if !b.Open() {
		t.Error("excused for ever")
	}
}

// A node that fails is tried again after a wait, not at once.
func TestANodeThatFailsIsTriedAfterAWait(t *testing.T) {
	now := time.UnixMilli(0)
	var b Breaker
	if in := b.TrialIn(now); in != 0 {
		t.Errorf("a well node is tried in %v", in)
	}
	for range TripAfter {
		b.Enter(now, true)
		b.Leave(now, true, time.Millisecond, time.Second)
	}
	if in := b.TrialIn(now); in != TrialEvery {
		t.Errorf("a node that has just failed is tried in %v", in)
	}
	if in := b.TrialIn(now.Add(TrialEvery)); in != 0 {
		t.Errorf("later it is tried in %v", in)
	}
}
