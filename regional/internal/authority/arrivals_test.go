package authority

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// TestBorrowersAreBounded: all together, and those of one key by what its limit could serve.
func TestBorrowersAreBounded(t *testing.T) {
	b := borrowers{arrivals: map[budget.KeyID]*Arrival{}, vain: map[budget.KeyID]vainWaits{}}
	l := budget.KeyLimit{Capacity: 2 * int64(limit.Token)}
	var all []*Arrival
	for i := range maxBorrowers {
		at := b.add(budget.KeyID{Rule: uint32(i / 2)}, l, budget.Share{})
		if at == nil {
			t.Fatalf("borrower %d is refused", i)
		}
		all = append(all, at)
	}
	if b.add(budget.KeyID{Rule: maxBorrowers}, l, budget.Share{}) != nil {
		t.Error("one more than there may be")
	}
	b.remove(all)
	if b.waiting != 0 || len(b.arrivals) != 0 {
		t.Errorf("left behind: %d waiting, %d keys", b.waiting, len(b.arrivals))
	}
	for i := range 3 {
		if got := b.add(budget.KeyID{}, l, budget.Share{}) != nil; got != (i < 2) {
			t.Errorf("borrower %d of a limit of two: %v", i, got)
		}
	}
}

// TestWaitsInVain: one wait in vain keeps no check from waiting, for the share may have been late. Each later one keeps
// them from it for twice as long, two seconds at the most. Checks that wait together count once.
func TestWaitsInVain(t *testing.T) {
	b := borrowers{vain: map[budget.KeyID]vainWaits{}}
	key, now := budget.KeyID{Rule: 1}, budget.Instant(time.Hour)
	const wait = 500 * time.Millisecond
	for i, want := range []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 2 * time.Second} {
		began := now
		for range 3 {
			now = now.Add(wait)
			b.addVainWait(key, began, now)
			now = now.Add(time.Millisecond - wait)
		}
		noted := began.Add(wait)
		if got := b.vain[key].until.Sub(noted); got != want {
			t.Errorf("after %d waits in vain none waits for %v, want %v", i+1, got, want)
		}
		now = max(b.vain[key].until, noted)
	}
	now = now.Add(vainWaitsKept)
	b.addVainWait(key, now, now.Add(wait))
	if got := b.vain[key].until; got != now.Add(wait) {
		t.Errorf("long after that none waits for %v", got.Sub(now))
	}
}

// TestMovesAreBounded: the table of keys whose share has changed keeps the latest ones.
func TestMovesAreBounded(t *testing.T) {
	b := borrowers{moved: map[budget.KeyID]budget.Instant{}}
	now := budget.Instant(time.Hour)
	key := func(i int) budget.KeyID { return budget.KeyID{Rule: uint32(i)} }
	for i := range 2 * maxMovedKeys {
		b.addMove(key(i), now)
	}
	if last := key(2*maxMovedKeys - 1); len(b.moved) != maxMovedKeys || !b.movedSince(last, now.Add(-1)) || b.movedSince(last, now) {
		t.Errorf("%d keys, the last: %v", len(b.moved), b.moved[last])
	}
	now = now.Add(maxBorrowWait)
	if b.addMove(key(0), now); len(b.moved) > maxMovedKeys || !b.movedSince(key(0), now.Add(-1)) {
		t.Errorf("%d keys once the others' next part cannot come any more", len(b.moved))
	}
	now = now.Add(time.Millisecond)
	if b.addMove(key(-1), now); len(b.moved) > maxMovedKeys {
		t.Errorf("%d keys", len(b.moved))
	}
}
