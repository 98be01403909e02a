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

// TestACheckThatWaitedSpendsNothingThatHasEnded: a check reads the clock, and waits until the chunk of its key is over,
// while something happens to the key. If nothing does, its process has paused: then it is decided as of when it came,
// as if the pause had come right after.
func TestACheckThatWaitedSpendsNothingThatHasEnded(t *testing.T) {
	for _, c := range []struct {
		wait    time.Duration
		touched bool
		want    route
	}{
		{99 * time.Millisecond, true, routeDecided},
		{100 * time.Millisecond, true, routeStore},
		{2 * time.Second, true, routeStore},
		{2 * time.Second, false, routeDecided},
	} {
		now := chargetest.Noon
		l := limiterBefore(t, &moodyStore{}, "e1", func() budget.Instant { return now }, strictRule(1000, 1000, ""))
		p, r, s := l.Policies.Load(), &asked("k")[0], &charge.Scratch{}
		d := charge.Decision{}
		s.Matched = d.Match(p, r, 0, nil)
		m := &s.Matched[0]
		e := chargetest.LentTo(t, l.Auth.Local, m.Rule, r)
		e.Limit = m.Limit
		came, _ := l.read()
		now = chargetest.Noon.Add(c.wait)
		if c.touched {
			l.Auth.Local.Due(now, false, nil, nil) // the janitor comes by
		}
		before := e.Chunk.Left()
		if way := routeOf(&d, l, p, r, came, s, false); way != c.want {
			t.Errorf("after %v, touched %t, it is decided by way %d, want %d", c.wait, c.touched, way, c.want)
		}
		if spent := before - e.Chunk.Left(); (spent > 0) != (c.want == routeDecided) {
			t.Errorf("after %v, touched %t, it spent %d", c.wait, c.touched, spent)
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
