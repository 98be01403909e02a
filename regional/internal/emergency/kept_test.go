package emergency

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/storeclock"
)

// TestContentsLostBeforeTheFirstCheck: a daemon comes back to the contents that its last run knew. If the store loses
// them before a check asks for anything, the daemon still has to tell the next contents what it remembers.
func TestContentsLostBeforeTheFirstCheck(t *testing.T) {
	now := budget.Instant(1e9)
	latest := "contents-1"
	started := func() *Limit {
		return New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
	}
	last := started()
	last.InSession(now)
	last.see("contents-1", now)
	kept := last.Keep()
	if kept == nil || kept.Contents != "contents-1" {
		t.Fatalf("the last run kept %+v", kept)
	}
	e := started()
	e.Return(kept, true)
	e.Resume("contents-1")
	e.InSession(now)
	if e.table.Remembers() {
		t.Fatal("it would tell the store of records that the store has")
	}
	latest = "contents-2"
	e.see("contents-2", now)
	if !e.table.Remembers() {
		t.Error("it tells the next contents nothing")
	}
}
