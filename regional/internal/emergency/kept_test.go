package emergency

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
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

// TestContentsAreLearnedWithoutACheck: the store has lost its contents, and no check comes for a while. What counts is
// whether this daemon had the session when that was learned.
func TestContentsAreLearnedWithoutACheck(t *testing.T) {
	for name, is := range map[string]struct {
		checked       bool // a check came before the loss
		before, after bool // a coordinator has answered before the loss, and again long after it
		remembers     bool
	}{
		"heard before":             {before: true, remembers: true},
		"heard before and checked": {checked: true, before: true, remembers: true},
		"heard after and checked":  {checked: true, after: true},
		"all":                      {checked: true, before: true, after: true, remembers: true},
	} {
		now, latest := 100*second, ""
		e := New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
		learn := func(contents string) {
			latest = contents
			e.Learned()
		}
		check := func(n uint64) *limit.Memory {
			a := anAsk(n)
			a.Limit.Rate.Micro = int64(limit.Token)
			g := &charge.Transaction{Asks: []charge.Charge{a}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			return g.Asks[0].Memory
		}
		learn("contents-1")
		if is.checked {
			check(2)
		}
		now += 1000 * second
		if is.before {
			e.InSession(now)
		}
		learn("contents-2")
		now += 10 * second
		if is.after {
			e.InSession(now)
		}
		m := check(1)
		if told := m != nil && m.Tokens == 50*limit.Token; told != is.remembers {
			t.Errorf("%s: the store is told %+v, want all of a key that was never used: %t", name, m, is.remembers)
		}
	}
}
