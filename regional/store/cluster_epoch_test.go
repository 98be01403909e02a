package store

import (
	"fmt"
	"testing"
)

// TestSpreadIsNotDisturbed: an epoch that another daemon gives to the slots is waited for
// while more of them get it, however long that takes, and no longer than mintWithin once
// none does.
func TestSpreadIsNotDisturbed(t *testing.T) {
	const birth = 1_700_000_000_000_000
	within := mintWithin.Microseconds()
	epoch := fmt.Sprintf("0123456789abcdef:fedcba9876543210:%d", birth)
	looks := []struct {
		slots int
		now   int64
		over  bool
	}{
		{100, birth + within/2, false},
		{200, birth + within, false},
		{300, birth + 2*within, false},    // older than that, and on its way
		{300, birth + 3*within, false},    // the last one came that long ago
		{300, birth + 3*within + 1, true}, // whoever gave it is gone
		{301, birth + 4*within, false},    // or was slow
		{200, birth + 5*within, false},    // a node was flushed:
		{200, birth + 6*within + 1, true}, // fewer are no sign of life
	}
	var s spread
	for i, look := range looks {
		now := &contents{now: look.now}
		for slot := range look.slots {
			now.epochs[homeSlot], now.epochs[(homeSlot+slot)%len(now.epochs)] = epoch, epoch
		}
		s.look(now)
		if s.over(now) != look.over {
			t.Errorf("look %d, %d slots at %d: over %t", i, look.slots, look.now-birth, !look.over)
		}
	}
	var fresh spread
	found := &contents{now: birth + within + 1}
	found.epochs[homeSlot] = epoch
	if fresh.look(found); !fresh.over(found) {
		t.Error("who comes to an old epoch that is not everywhere waits")
	}
	found.now = birth - 1
	if fresh.look(found); !fresh.over(found) {
		t.Error("an epoch of the future is waited for")
	}
}
