package regional

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/regional/internal/background"
)

const (
	// upkeepEvery is the interval at which upkeep visits what was borrowed. A chunk that is not
	// used goes back within half its life, so a tenth of that is soon enough.
	upkeepEvery = chunk.Life / 20
	// tellEvery is how long the state machine may wait for the use that was decided here.
	tellEvery = 20 * time.Millisecond
)

// upkeep maintains the tokens that this daemon has borrowed: it returns unused ones, renews those
// that are nearly used up, and reports the use to the state machine.
type upkeep struct {
	table *localTable
	auth  *authority
	// ask sends groups to the store, in the same way as checks.
	ask  func(ctx context.Context, groups []*group) error
	bugs *background.Panics

	calls sync.WaitGroup
	told  budget.Instant

	// dues and seen are backing memory for one run of look.
	dues []dueEntry
	seen []observation
}

// run works until ctx ends; then it returns everything that is borrowed.
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
			u.bugs.Guard("upkeep", func() { err = u.ask(ctx, call) })
			if err != nil && !errors.Is(err, errGivenUp) && !errors.Is(err, errGone) {
				lost(call) // those whose call never left
			}
			if err != nil {
				stalled(call)
			}
		})
	}
}

// stalled wakes the checks that wait for a call that failed or was given up. It reads which entries
// the call's groups have, which no call changes.
func stalled(call []*group) {
	for _, g := range call {
		e := g.asks[0].local
		e.mu.Lock()
		e.fail()
		e.mu.Unlock()
	}
}

// dueEntry is an entry that needs a call.
type dueEntry struct {
	entry *localEntry
	due   chunk.Due
}

// due visits the active entries. It returns those that need a call and, if tells is set, the
// observations for the state machine. Entries with neither, and with nothing left, become inactive.
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

// word returns a group for each entry that needs a call.
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
