package sim

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// Deadlines of store calls: beyond, a reply counts as lost.
const (
	takeDeadline  = 50 * milli
	takeLate      = 500 * milli // on the store's clock: one that arrives later does nothing
	applyDeadline = second
)

// learn asks the store for the identity of its contents.
func (n *node) learn() {
	if n.learning {
		return
	}
	n.learning = true
	s, sent := n.w.stores[n.region], n.now()
	n.w.after(n.w.between(milli/10, 2*milli), func() {
		epoch, time := s.learn(), s.time()
		n.w.after(n.w.between(milli/10, 2*milli), n.when(func() {
			n.learning = false
			n.storeIs(epoch)
			n.clockMap.Sample(time, sent, n.now())
		}))
	})
}

func (n *node) storeIs(epoch string) {
	if n.epoch == epoch {
		return
	}
	if n.epoch != "" && n.outdated() {
		n.w.replace(n, 100*milli) // nothing in the new contents fences it
		return
	}
	n.w.note("learns contents", n.region, int64(n.name), 0, 0, 0)
	birth, _ := limit.EpochBirth(epoch)
	n.clockMap.Reset()
	n.epoch, n.birth = epoch, birth
	n.step(budget.StoreEpoch{Epoch: epoch})
}

// probe looks at the store once a second.
func (n *node) probe() {
	if n.dead {
		return
	}
	n.when(n.learn)()
	n.w.after(second, n.probe)
}

// take asks the store for tries requests of one cost. done, if not nil, is called with
// the reply, if one comes, after the daemon has learned of it.
func (n *node) take(c *client, tries int, cost limit.Tokens, done func(taken)) {
	if n.dead || n.paused() || !n.configured() || n.epoch == "" || tries == 0 || n.staleFloors() {
		return
	}
	right := n.machine.Right(c.key, c.keyLimit(), n.now())
	view, epoch, sent, began := n.view(right, c), n.epoch, n.now(), n.w.now
	s, deadline := n.w.stores[n.region], n.clockMap.Until(sent+budget.Instant(takeLate))
	n.w.after(n.w.storeDelay(n.region), func() {
		if n.buried || s.time() > deadline && !n.w.plant.is(noDeadlines) {
			return
		}
		rep := s.take(epoch, c, view, tries, cost)
		lost := n.w.strikes(stuckStore, 200)
		n.w.after(n.w.between(milli/20, milli), n.when(func() {
			if lost || n.w.now-began > takeDeadline {
				return
			}
			n.took(c, rep, cost, epoch, sent, &view)
			if done != nil {
				done(rep)
			}
		}))
	})
}

func (n *node) took(c *client, rep taken, cost limit.Tokens, epoch string, sent budget.Instant, v *limit.View) {
	if rep.otherEpoch {
		n.learn()
		return
	}
	if epoch == n.epoch {
		n.clockMap.Sample(rep.time, sent, n.now())
	}
	for i, out := range rep.tries {
		if out.Amnesia && !n.w.plant.is(missingHotIsCold) {
			n.w.note("store lost a hot key", n.region, int64(n.name), int64(c.key.Rule), 0, 0)
			n.step(budget.StoreLost{})
		}
		n.machine.Observe(c.key, budget.Usage{
			Limit: c.keyLimit(), Cost: int64(cost), Admitted: i < rep.admitted,
			Tokens: int64(out.Tokens), FloorCap: int64(v.Floor.Cap), ColdCap: int64(v.Cold().Cap),
		}, n.now())
	}
}

// apply makes a directive's changes in the store, and tells it of a lease.
func (n *node) apply(changes []budget.ShareChange, lease bool) {
	call := make([]change, len(changes))
	for i, c := range changes {
		client := n.w.clientOf(c.Key)
		l := client.limit
		call[i] = change{client: client, change: limit.Change{
			View: n.view(c.Before, client), Gen: n.w.plant.pack(c.Gen), Share: shell.Bucket(l, c.Share),
			Grant: n.w.plant.grant(c, l), Cold: c.Cold,
			Deadline: max(n.clockMap.Until(n.now()+budget.Instant(applyDeadline)), 1),
		}}
	}
	answered := false
	answer := func(results []budget.ShareResult) callback {
		return n.when(func() {
			if !answered {
				answered = true
				n.step(budget.SharesApplied{Results: results})
			}
		})
	}
	s, epoch := n.w.stores[n.region], n.epoch
	n.w.after(n.w.storeDelay(n.region), func() {
		if n.buried {
			return
		}
		upTo, lost := len(call), false
		if n.w.strikes(stuckStore, 50) {
			upTo, lost = int(n.w.between(0, int64(len(call)))), true
		}
		results, ok := s.apply(epoch, call, upTo, lease)
		switch {
		case !ok && !lost:
			n.w.after(milli, n.when(n.learn))
			n.w.after(milli, answer(failed(changes)))
		case !lost:
			n.w.after(n.w.between(milli/20, milli), answer(results))
		}
	})
	// Without a reply in time the changes may or may not have been made.
	n.w.after(applyDeadline+applyDeadline/20, answer(failed(changes)))
}

func failed(changes []budget.ShareChange) []budget.ShareResult {
	out := make([]budget.ShareResult, len(changes))
	for i, c := range changes {
		out[i] = budget.ShareResult{Key: c.Key, Failed: true}
	}
	return out
}
