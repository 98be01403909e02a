package engine

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/rules"
)

// TestACheckThatPausedSpendsNothingThatHasEnded: a check reads the clock, and its process is
// put aside until the chunk of its key is over.
func TestACheckThatPausedSpendsNothingThatHasEnded(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		want  route
	}{{99 * time.Millisecond, routeDecided}, {100 * time.Millisecond, routeStore}, {2 * time.Second, routeStore}} {
		now := chargetest.Noon
		l := limiterBefore(t, &moodyStore{}, "e1", func() budget.Instant { return now }, strictRule(1000, 1000, ""))
		p, r, s := l.Policies.Load(), &asked("k")[0], &charge.Scratch{}
		d := charge.Decision{}
		s.Matched = d.Match(p, r, 0, nil)
		m := &s.Matched[0]
		e := chargetest.LentTo(t, l.Auth.Local, m.Rule, r)
		e.Limit = m.Limit
		before := e.Chunk.Left()
		came, _ := l.read()
		now = chargetest.Noon.Add(c.pause)
		if way := routeOf(&d, l, p, r, came, s, false); way != c.want {
			t.Errorf("after a pause of %v it is decided by way %d, want %d", c.pause, way, c.want)
		}
		if spent := before - e.Chunk.Left(); (spent > 0) != (c.want == routeDecided) {
			t.Errorf("after a pause of %v it spent %d", c.pause, spent)
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
