package regional

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
)

const (
	// upkeepEvery is how often what was borrowed is looked after: a chunk that is not used
	// goes back within half its life, so a tenth of that is soon enough.
	upkeepEvery = chunk.Life / 20
	// tellEvery is how long the machine may wait to hear what was decided here.
	tellEvery = 20 * time.Millisecond
)

// upkeep looks after what this daemon has borrowed: it brings back what is not used,
// renews what nearly is, and tells the machine of the use.
type upkeep struct {
	table *localTable
	auth  *authority
	// ask puts groups to the store, as checks are.
	ask  func(ctx context.Context, groups []*group) error
	bugs *panics

	calls sync.WaitGroup
	told  budget.Instant

	// room for what one look finds due, and has to tell.
	dues []dueEntry
	seen []observation
}

// run works until ctx ends; then it brings everything back.
func (u *upkeep) run(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	defer u.calls.Wait()
	for {
		select {
		case <-ctx.Done():
			u.table.end(false)
			u.look(context.WithoutCancel(ctx), u.auth.now())
			return
		case <-tick.C:
		case <-u.table.wake:
		}
		u.look(ctx, u.auth.now())
	}
}

// look does what is due at an instant.
func (u *upkeep) look(ctx context.Context, now budget.Instant) {
	tells := now.Sub(u.told) >= tellEvery
	if tells {
		u.told = now
	}
	due, seen := u.due(now, tells)
	u.auth.observe(seen)
	defer func() {
		clear(due)
		u.dues, u.seen = due[:0], seen[:0]
	}()
	for call := range slices.Chunk(u.word(due, now), groupsPerCall) {
		u.calls.Go(func() {
			err := errBroken
			u.bugs.guard("upkeep", func() { err = u.ask(ctx, call) })
			if err != nil && !errors.Is(err, errGivenUp) && !errors.Is(err, errGone) {
				lost(call) // as far as it never left
			}
			if err != nil {
				stalled(call)
			}
		})
	}
}

// stalled wakes those who wait for a call that has failed, or was given up: which entries
// its groups are of no call changes.
func stalled(call []*group) {
	for _, g := range call {
		e := g.asks[0].local
		e.mu.Lock()
		e.fail()
		e.mu.Unlock()
	}
}

// dueEntry is an entry with something to do.
type dueEntry struct {
	entry *localEntry
	due   chunk.Due
}

// due goes through the active entries: what is to be done, and, if tells, what the
// machine is to be told. Those with neither, and nothing left, are active no more.
func (u *upkeep) due(now budget.Instant, tells bool) (due []dueEntry, seen []observation) {
	due, seen = u.dues, u.seen
	active := u.table.takeActive()
	kept := active[:0]
	for _, e := range active {
		e.mu.Lock()
		if tells {
			seen = e.tell(now, seen)
		}
		if d := e.chunk.Due(now); d != chunk.Nothing {
			due = append(due, dueEntry{e, d})
		}
		u.table.lost.Add(e.chunk.TellLost())
		if e.active = e.chunk.Active(); e.active {
			kept = append(kept, e)
		}
		e.mu.Unlock()
	}
	clear(active[len(kept):])
	u.table.putActive(kept)
	return due, seen
}

// tell words what was decided here since the last time. The caller holds mu.
func (e *localEntry) tell(now budget.Instant, seen []observation) []observation {
	admitted, denied := e.chunk.Tell()
	if admitted == 0 && denied == 0 {
		return seen
	}
	a := e.ask()
	a.admitted, a.denied = admitted, denied
	return a.used(e.chunk.Outcome(now).Tokens, seen)
}

// word makes groups of what is due.
func (u *upkeep) word(due []dueEntry, now budget.Instant) []*group {
	groups := make([]*group, 0, len(due))
	for _, d := range due {
		d.entry.mu.Lock()
		g := newGroup(0)
		g.upkeep, g.asks = true, append(g.asks, d.entry.ask())
		groups = append(groups, g)
		d.entry.mu.Unlock()
	}
	if len(groups) == 0 {
		return nil
	}
	u.auth.floors.RLock()
	defer u.auth.floors.RUnlock()
	head := u.auth.grant(groups)
	return slices.DeleteFunc(groups, func(g *group) bool { return !g.asks[0].keep(u.table, &head, now) })
}

// keep words the renewal of a chunk, or its return; false if there is nothing to do any
// more.
func (a *ask) keep(t *localTable, head *header, now budget.Instant) bool {
	e := a.local
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.records(a) {
		return false
	}
	terms := e.terms(t, head, a, a.borrows())
	switch e.chunk.Due(now) {
	case chunk.Renewal:
		a.asked, a.trip = e.chunk.Renew(terms, now)
	case chunk.Return:
		terms.Lends = false
		a.asked, a.trip = e.chunk.Bring(0, terms, now)
	default:
		return false
	}
	a.away, a.worded = true, true
	return true
}

// takeActive empties the list of the entries to look after.
func (t *localTable) takeActive() []*localEntry {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	active := t.active
	t.active = nil
	return active
}

// putActive puts those back that are to be looked after still, before those that have
// come since.
func (t *localTable) putActive(kept []*localEntry) {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	t.active = append(kept, t.active...)
}

// activeKeys is how many entries are looked after.
func (t *localTable) activeKeys() int {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	return len(t.active)
}

// keys is how many entries there are.
func (t *localTable) keys() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}
