package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
)

// Janitor maintains the tokens that this daemon has borrowed. It returns unused ones, renews chunks
// that are nearly used up, and tells the state machine what memory has decided.
type Janitor struct {
	table *charge.Table
	auth  *authority.Authority
	// send sends groups to the store, in the same way as checks.
	send func(ctx context.Context, groups []*charge.Transaction) error
	bugs *background.Panics

	calls    sync.WaitGroup
	observed budget.Instant // when the state machine was told the last time

	// dues and seen are working memory for one visit.
	dues []*charge.Entry
	seen []charge.Observation
}

// gatherFor is how long the janitor waits for further entries that need a call now, so that they share it. A chunk that
// is renewed has a quarter left, which lasts much longer.
const gatherFor = time.Millisecond

// Run works until ctx ends; then it returns everything that is borrowed.
func (u *Janitor) Run(ctx context.Context) {
	tick, gather := time.NewTicker(charge.JanitorInterval), time.NewTimer(gatherFor)
	defer tick.Stop()
	defer gather.Stop()
	defer u.calls.Wait()
	wake := u.table.Wake
	for {
		select {
		case <-ctx.Done():
			u.table.End(false)
			u.visit(context.WithoutCancel(ctx), u.auth.Now())
			return
		case <-tick.C:
			u.visit(ctx, u.auth.Now())
		case <-wake:
			wake = nil
			gather.Reset(gatherFor)
		case <-gather.C:
			wake = u.table.Wake
			now := u.auth.Now()
			u.call(ctx, u.table.Urgent(now, u.dues), now)
		}
	}
}

// visit does what is due at an instant.
func (u *Janitor) visit(ctx context.Context, now budget.Instant) {
	observe := now.Sub(u.observed) >= charge.ObserveInterval
	if observe {
		u.observed = now
	}
	due, seen := u.table.Due(now, observe, u.dues, u.seen)
	u.auth.Observe(seen)
	u.seen = seen[:0]
	u.call(ctx, due, now)
}

// call makes the calls of entries that need one.
func (u *Janitor) call(ctx context.Context, due []*charge.Entry, now budget.Instant) {
	defer func() {
		clear(due)
		u.dues = due[:0]
	}()
	for call := range slices.Chunk(u.transactions(due, now), storeguard.GroupsPerCall) {
		u.calls.Go(func() {
			err := storeguard.ErrBroken
			u.bugs.Guard("the janitor", func() { err = u.send(ctx, call) })
			if err != nil && !errors.Is(err, storeguard.ErrGivenUp) && !errors.Is(err, charge.ErrGone) {
				charge.Fail(call) // ends the checkouts of a call that never left
			}
			if err != nil {
				charge.MarkStalled(call)
			}
		})
	}
}

// transactions returns a group for each entry that needs a call.
func (u *Janitor) transactions(due []*charge.Entry, now budget.Instant) []*charge.Transaction {
	groups := make([]*charge.Transaction, 0, len(due))
	for _, e := range due {
		groups = append(groups, e.ChunkTransaction())
	}
	if len(groups) == 0 {
		return nil
	}
	u.auth.HoldFloor()
	defer u.auth.ReleaseFloor()
	head := u.auth.Grant(groups)
	return slices.DeleteFunc(groups, func(g *charge.Transaction) bool { return !g.Charges[0].RenewOrReturn(u.table, &head, now) })
}
