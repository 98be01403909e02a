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

// Upkeep maintains the tokens that this daemon has borrowed: it returns unused ones, renews those
// that are nearly used up, and reports the use to the state machine.
type Upkeep struct {
	table *charge.Table
	auth  *authority.Authority
	// ask sends groups to the store, in the same way as checks.
	ask  func(ctx context.Context, groups []*charge.Transaction) error
	bugs *background.Panics

	calls sync.WaitGroup
	told  budget.Instant

	// dues and seen are backing memory for one run of look.
	dues []*charge.Entry
	seen []charge.Observation
}

// Run works until ctx ends; then it returns everything that is borrowed.
func (u *Upkeep) Run(ctx context.Context) {
	tick := time.NewTicker(charge.JanitorInterval)
	defer tick.Stop()
	defer u.calls.Wait()
	for {
		select {
		case <-ctx.Done():
			u.table.End(false)
			u.look(context.WithoutCancel(ctx), u.auth.Now())
			return
		case <-tick.C:
		case <-u.table.Wake:
		}
		u.look(ctx, u.auth.Now())
	}
}

// look does what is due at an instant.
func (u *Upkeep) look(ctx context.Context, now budget.Instant) {
	tells := now.Sub(u.told) >= charge.ObserveInterval
	if tells {
		u.told = now
	}
	due, seen := u.table.Due(now, tells, u.dues, u.seen)
	u.auth.Observe(seen)
	defer func() {
		clear(due)
		u.dues, u.seen = due[:0], seen[:0]
	}()
	for call := range slices.Chunk(u.word(due, now), storeguard.GroupsPerCall) {
		u.calls.Go(func() {
			err := storeguard.ErrBroken
			u.bugs.Guard("upkeep", func() { err = u.ask(ctx, call) })
			if err != nil && !errors.Is(err, storeguard.ErrGivenUp) && !errors.Is(err, charge.ErrGone) {
				charge.Fail(call) // those whose call never left
			}
			if err != nil {
				charge.MarkStalled(call)
			}
		})
	}
}

// word returns a group for each entry that needs a call.
func (u *Upkeep) word(due []*charge.Entry, now budget.Instant) []*charge.Transaction {
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
