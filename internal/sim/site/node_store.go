package site

import (
	"math"
	"slices"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/timeline"
	"aliquot/limit"
)

// Deadlines of store calls. A later reply counts as lost. A caller waits no longer than callerPatience, and its call
// goes on up to takeDeadline, as in the daemon.
const (
	callerPatience = 40 * milli
	takeDeadline   = 100 * milli
	takeLate       = 500 * milli // on the store's clock: a call that arrives later does nothing
	applyDeadline  = second
)

// learn asks the store for the identity of its contents.
func (n *Node) learn() {
	if n.learning || n.storeCut() {
		return
	}
	n.learning = true
	s, sent, began := n.w.Stores[n.Region], n.Now(), n.w.Now()
	n.w.atStore(n.Region, n.w.Between(milli/10, 2*milli), func() {
		epoch, time := s.learn(), s.Time()
		n.w.Plan(n.w.Between(milli/10, 2*milli), n.When(func() {
			n.learning = false
			n.storeIs(epoch)
			if n.w.Now() >= n.clockCutTo {
				n.sample(time, sent, began)
			}
		}))
	})
}

// sample records a reading of the store's clock that was requested at the daemon's instant sent,
// true time began.
func (n *Node) sample(store int64, sent budget.Instant, began int64) {
	if n.overtaken(sent) {
		return
	}
	leapt := n.clockMap.Sample(store, sent, n.Now())
	n.sampled = began
	n.distrust(leapt)
	for _, r := range n.w.Rules {
		r.Book.ClockRead(n.Region, min(began, n.othersSampled()))
	}
}

// overtaken reports whether a reading that was requested at an instant was in flight for long while a later one was requested
// and recorded. A daemon that was paused may learn of it.
func (n *Node) overtaken(sent budget.Instant) bool {
	return n.Now()-sent > budget.Instant(takeLate) && n.clockMap.RequestedAfter(sent)
}

// othersSampled returns the oldest reading that another daemon of the region goes by, as sampled.
func (n *Node) othersSampled() int64 {
	oldest := int64(math.MaxInt64)
	for _, other := range n.w.Nodes {
		if other != n && other.Region == n.Region && !other.Dead {
			oldest = min(oldest, other.sampled)
		}
	}
	return oldest
}

// distrust gives up the lease if the store's clock was set forward: that cannot be told from a
// clock of the daemon that was stopped.
func (n *Node) distrust(leapt bool) {
	if !leapt {
		return
	}
	n.step(budget.ClockStopped{})
	for _, r := range n.w.Rules {
		if r.Book != nil {
			r.Book.ClockLeapt(n.Region, n.othersSampled())
		}
	}
}

func (n *Node) storeIs(epoch string) {
	if n.epoch == epoch {
		return
	}
	if n.epoch != "" && n.outdated() {
		n.w.above.Replace(n, 100*milli) // nothing in the new contents fences it
		return
	}
	n.w.Note("learns contents", n.Region, int64(n.Name), 0, 0, 0)
	birth, _ := limit.EpochBirth(epoch)
	if n.clockMap.Until(n.Now()) != 0 {
		n.oldClock = n.clockMap
	}
	n.clockMap.Reset()
	if n.w.Faults.Strikes(faults.StuckStore, 2) {
		n.clockCutTo = n.w.Now() + n.w.Between(0, 8*second)
	}
	if n.epoch != "" {
		n.spentBeside()
		n.recalled.Emptied(n.Now())
	}
	n.epoch, n.stamp, n.birth = epoch, limit.Stamp(epoch), birth
	if n.roster != nil {
		n.roster.Contents()
	}
	n.step(budget.StoreEpoch{Epoch: epoch})
}

// probe asks the store once a second.
func (n *Node) probe() {
	if n.Dead {
		return
	}
	if !n.probing {
		n.probing = true
		n.When(func() {
			n.probing = false
			n.learn()
		}).Happen()
	}
	n.w.After(second, n.probe)
}

// clockless reports whether the store has told its contents, and not its clock since. A daemon asks such a store
// nothing.
func (n *Node) clockless() bool { return n.clockMap.Until(n.Now()) == 0 }

// apply makes a directive's changes in the store, and marks the lease in it. Before the changes leave it may learn the
// contents, read the clock or wait for its turn.
func (n *Node) apply(changes []budget.ShareChange, lease bool) {
	if n.w.Faults.Strikes(faults.StuckStore, 4) {
		changes = slices.Clone(changes)
		n.w.Plan(n.w.Between(0, 300*milli), n.When(func() { n.applyNow(changes, lease) }))
		return
	}
	n.applyNow(changes, lease)
}

// applyNow is apply for changes that leave now.
func (n *Node) applyNow(changes []budget.ShareChange, lease bool) {
	if n.clockless() {
		n.unmarked = lease || n.unmarked
		n.w.Plan(applyDeadline, n.When(func() { n.step(budget.SharesApplied{Results: failed(changes)}) }))
		return
	}
	call := make([]change, 0, len(changes))
	number := n.recalled.Call()
	var unknown []budget.ShareResult
	for _, c := range changes {
		r := n.w.ruleOf(c.Key)
		if n.last.Resumed() {
			c.Before = entitlement.Returning(c.Before)
		}
		l := limit.Limit{Capacity: limit.Tokens(c.Limit.Capacity), Rate: limit.Rate{Micro: c.Limit.Rate, Frac: c.Limit.RateFrac}}
		switch {
		case l.Capacity > 0 && r.Book != nil:
			l, _ = entitlement.Limit(c.Limit, r.Book.Algorithm())
		case l.Capacity > 0:
		case r.InForce(n.Version):
			l = n.limitOf(r)
		default:
			// The rule of the key is gone, or has not come yet, and the change does not have the
			// limit.
			unknown = append(unknown, budget.ShareResult{Key: c.Key, Unenforced: !c.Cold})
			continue
		}
		view := n.view(c.Before, r, l)
		charge := n.charge(&ask{rule: r, limit: l, right: c.Before}, 0)
		carried := n.recalled.Carry(&charge, number, n.Now())
		view.Debit, view.Held = carried.Amount, carried.Held
		view.Chunk = n.recall(r, l)
		view.Memory = n.memory(&ask{rule: r, limit: l, right: c.Before})
		n.recalled.Forget(r.Key, n.Now())
		call = append(call, change{rule: r, limit: l, carried: carried, change: limit.Change{
			View: view, Gen: c.Gen.Pack(), Share: entitlement.Bucket(l, c.Share),
			Grant: limit.Tokens(c.Grant), From: c.From, Cold: c.Cold,
			Deadline: max(n.clockMap.Until(n.Now()+budget.Instant(applyDeadline)), 1),
		}})
	}
	s, epoch, asked, sent, sampled := n.w.Stores[n.Region], n.epoch, n.Now(), n.w.Now(), n.sampled
	answered := false
	answer := func(results []budget.ShareResult, storeNow int64) timeline.Happening {
		return n.When(func() {
			if !answered {
				answered = true
				if storeNow != 0 && epoch == n.epoch {
					n.sample(storeNow, asked, sent)
				}
				n.unmarked = storeNow == 0 && (lease || n.unmarked)
				for i := range call {
					n.applied(&call[i], results, i, storeNow)
				}
				for _, c := range call {
					n.forget(c.rule) // a call that overtook this one was decided by the earlier share
				}
				n.step(budget.SharesApplied{Results: results})
			}
		})
	}
	n.w.atStore(n.Region, n.w.storeDelay(n.Region), func() {
		if n.buried || n.storeCut() || s.outlived(sampled, sent, applyDeadline) {
			return
		}
		upTo, lost := len(call), false
		if n.w.Faults.Strikes(faults.StuckStore, 50) {
			upTo, lost = int(n.w.Between(0, int64(len(call)))), true
		}
		now := s.Time()
		results, ok := s.apply(epoch, call, upTo, lease)
		switch {
		case !ok && !lost:
			n.w.Plan(milli, n.When(n.learn))
			n.w.Plan(milli, answer(failed(changes), 0))
		case !lost:
			n.w.Plan(n.w.Between(milli/20, milli), answer(append(results, unknown...), now))
		}
	})
	// Without a reply in time it is unknown whether the changes were made.
	n.w.Plan(applyDeadline+applyDeadline/20, answer(failed(changes), 0))
}

// applied applies the store's result for one of the changes of a call, at its clock's time; 0:
// there is no result.
func (n *Node) applied(c *change, results []budget.ShareResult, i int, storeNow int64) {
	made := storeNow != 0 && !results[i].Failed
	n.recalled.Paid(c.rule.Key, c.carried, made)
	switch tokens := limit.Tokens(results[i].Tokens); {
	case !made:
		n.recalled.Untold(c.rule.Key, n.Now())
	case c.limit.Algorithm.Counts():
		named := n.identify(&ask{rule: c.rule, limit: c.limit})
		n.recalled.TellUse(&named, tokens, limit.Tokens(results[i].InUse), storeNow, n.Now())
	default:
		n.recalled.Tell(c.rule.Key, tokens, c.change.Share.Rate.Micro, storeNow, n.Now())
	}
}

func failed(changes []budget.ShareChange) []budget.ShareResult {
	out := make([]budget.ShareResult, len(changes))
	for i, c := range changes {
		out[i] = budget.ShareResult{Key: c.Key, Failed: true}
	}
	return out
}
