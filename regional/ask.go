package regional

import (
	"context"
	"errors"
	"slices"
	"sync"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
)

// asker sends groups to the store, in one call. Safe for concurrent use.
type asker struct {
	auth      *authority
	guard     *guard
	emergency *emergency
	slots     *slotNames
	wordings  sync.Pool // of *wording
}

// wording holds the buffers of one store call. Nothing refers to them once the call has returned.
type wording struct {
	call  []lua.Group
	views []lua.KeyView
	seen  []observation
}

// mostWorded is the maximum number of limits of a call whose buffers are kept for another call.
const mostWorded = 4 * groupsPerCall

// keep takes back buffers that are no longer in use. Those of a failed call are dropped instead.
func (a *asker) keep(w *wording) {
	if cap(w.views) <= mostWorded {
		a.wordings.Put(w)
	}
}

// errNoEpoch: the store has not answered since the start.
var errNoEpoch = errors.New("regional: the store's contents are not known yet")

// ask decides groups, at most groupsPerCall, in order. After an error nothing was admitted. A group
// that a store of several servers could decide only in part is left undecided.
func (a *asker) ask(ctx context.Context, groups []*group) error {
	return a.again(ctx, func() error { return a.try(ctx, groups) })
}

// again makes a call. If the store has other contents than expected, it learns them and makes the
// call once more, unless too many calls are repeated already.
func (a *asker) again(ctx context.Context, try func() error) error {
	a.guard.retries.called()
	err := try()
	if _, late := errors.AsType[*lua.LateError](err); late && a.guard.retries.retry() {
		// By this daemon's clock the call was not late, or it would have given up. So the store's
		// clock was set, and has been learnt again meanwhile.
		err = try()
	}
	if _, other := errors.AsType[*lua.EpochError](err); !other {
		return err
	}
	if learnt := a.guard.learn(ctx); learnt != nil {
		return learnt
	}
	if !a.guard.retries.retry() {
		return err
	}
	return try()
}

// try makes the call. It reads all rights at one instant, so that all views of the call have the
// same phase, contents and deadline, whichever callers the groups came from.
func (a *asker) try(ctx context.Context, groups []*group) error {
	a.auth.floors.RLock()
	defer a.auth.floors.RUnlock()
	defer lost(groups) // the borrowed tokens that have not come back by then, also after a panic
	head, err := a.grant(ctx, groups)
	if err != nil {
		return err
	}
	local := a.auth.local
	w, _ := a.wordings.Get().(*wording)
	if w == nil {
		w = &wording{}
	}
	results, storeNow, err := a.guard.take(ctx, head.epoch, func() []lua.Group {
		a.emergency.sent(groups, &head)
		return w.callOf(&head, groups, a.slots, local, head.at)
	})
	if err != nil {
		a.emergency.failed(groups, err, head.latest)
		return err
	}
	received := a.auth.now()
	for i, g := range groups {
		if err := results[i].Err; err != nil {
			a.emergency.failed(groups[i:i+1], err, head.latest)
			continue
		}
		a.emergency.answered(g, &results[i], storeNow, received)
		g.took(local, &results[i], storeNow, received)
	}
	seen := w.seen[:0]
	for i, g := range groups {
		if results[i].Err != nil {
			g.undecided, g.answer = results[i].Undecided, results[i]
			a.guard.turnedAway(results[i].Err)
			lost(groups[i : i+1])
			continue
		}
		seen = g.settleHere(local, results[i], a.auth.now, seen)
	}
	a.auth.observe(seen)
	w.seen = seen
	a.keep(w)
	return nil
}

// grant reads the rights of all asks. If the store's clock is not known it reads the clock first,
// because no lease holds by an unknown clock.
func (a *asker) grant(ctx context.Context, groups []*group) (header, error) {
	head := a.auth.grant(groups)
	if head.epoch != "" && head.deadline == 0 {
		if err := a.guard.readClock(ctx, head.epoch); err != nil {
			return head, err
		}
		head = a.auth.grant(groups)
	}
	if head.epoch == "" {
		return head, errNoEpoch
	}
	return head, nil
}

// settleHere settles a group that the store has just decided. If the store denied it, tokens may
// have come into this daemon's memory meanwhile.
func (g *group) settleHere(t *localTable, r lua.Result, clock func() budget.Instant, seen []observation) []observation {
	switch {
	case r.Allowed:
		return g.settle(r, seen)
	case !t.second(g, clock):
		if g.await(); g.awaits != nil {
			return g.usedHere(r, seen)
		}
		return g.settle(r, seen)
	}
	for i := range g.asks {
		seen = g.asks[i].used(g.out[i].found.Tokens, seen)
	}
	return seen
}

// usedHere adds observations of what this daemon decided for the keys of a group that is sent once
// more. The second answer replaces the first.
func (g *group) usedHere(r lua.Result, seen []observation) []observation {
	for i := range g.asks {
		a := &g.asks[i]
		seen = a.used(r.Limits[i].Tokens+a.left, seen)
	}
	return seen
}

// callOf builds the store call of groups. The call has to leave at once. The result is valid until
// w is used again.
func (w *wording) callOf(head *header, groups []*group, slots *slotNames, local *localTable, now budget.Instant) []lua.Group {
	limits := 0
	for _, g := range groups {
		limits += len(g.asks)
	}
	w.call, w.views = slices.Grow(w.call[:0], len(groups))[:len(groups)], slices.Grow(w.views[:0], limits)[:limits]
	call, free := w.call, w.views
	for i, g := range groups {
		local.bring(head, g, now)
		views := free[:len(g.asks):len(g.asks)]
		free = free[len(g.asks):]
		for j := range g.asks {
			a := &g.asks[j]
			if a.limit.Algorithm == limit.Concurrency {
				a.slot = slots.next()
			}
			v := head.view(a)
			v.Chunk = a.asked
			a.floorCap, a.coldCap = v.Floor.Cap, v.Cold().Cap
			views[j] = lua.KeyView{Key: lua.Key(a.limit.Algorithm, a.key.Rule, a.key.Hash), View: v}
		}
		// A request's cost may exceed what a store counts if its limits have other units. One group
		// that is refused would fail the whole call.
		call[i] = lua.Group{Cost: min(g.cost, limit.MaxExact), Limits: views}
	}
	return call
}
