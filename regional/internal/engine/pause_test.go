package engine

import (
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/rules"
)

// TestACheckThatPausedSpendsNothingThatHasEnded: checks read the clock, and their process is put aside until the chunk of
// their key is over. The store decides all of them.
func TestACheckThatPausedSpendsNothingThatHasEnded(t *testing.T) {
	for pause, held := range map[time.Duration]bool{
		99 * time.Millisecond: true, 100 * time.Millisecond: false, 2 * time.Second: false,
	} {
		now := chargetest.Noon
		l := limiterBefore(t, &moodyStore{}, "e1", func() budget.Instant { return now }, strictRule(1000, 1000, ""))
		requests := append(append(asked("k"), asked("k")...), asked("another")...)
		s := &charge.Scratch{}
		d := charge.Decision{}
		m := &d.Match(l.Policies.Load(), &requests[0], 0, nil)[0]
		e := chargetest.LentTo(t, l.Auth.Local, m.Rule, &requests[0])
		e.Limit = m.Limit
		came, wall := l.Read()
		s.Reset(len(requests), came)
		now = chargetest.Noon.Add(pause)
		groups := l.decideCached(requests, s, came, wall, false)
		want := []int{2}
		if !held {
			want = []int{2, 0, 1}
		}
		if !slices.Equal(s.ForStore, want) || len(groups) != len(want) {
			t.Errorf("after a pause of %v the store decides %v in %d groups, want %v", pause, s.ForStore, len(groups), want)
		}
		for i := range 2 {
			if d := &s.Decisions[i]; (d.CachedVerdicts != nil) != held || (d.Groups == nil) != held {
				t.Errorf("after a pause of %v: %d verdicts of memory and %d groups", pause, len(d.CachedVerdicts), len(d.Groups))
			}
		}
	}
}

// TestASecondLookSpendsNothingThatHasEnded: the store's denial is here, and the process is
// put aside before it looks at what another call has brought.
func TestASecondLookSpendsNothingThatHasEnded(t *testing.T) {
	table, rule := charge.NewTable(), &rules.Rule{ID: "r0", LocalCache: true}
	e := chargetest.Lent(t, table, rule)
	g := charge.NewTransaction(limit.Token)
	g.Charges = append(g.Charges, charge.Charge{Planned: charge.Planned{Rule: rule, Cost: limit.Token, Key: e.Key}, Borrowing: charge.Borrowing{Local: e}})
	now := chargetest.Noon.Add(2 * time.Second)
	if table.RetryCached(g, func() budget.Instant { return now }) {
		t.Error("it was admitted by a chunk that has ended")
	}
	if now = chargetest.Noon.Add(time.Millisecond); !table.RetryCached(g, func() budget.Instant { return now }) {
		t.Error("it was not admitted by a chunk that it could spend")
	}
}
