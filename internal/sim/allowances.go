package sim

import (
	"aliquot/internal/chunk"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// The oracle is one exact bucket for the whole world and each key (ideal), and for a limit that counts an exact account of
// use (book). It is fed with what clients were given and with true time. It reads nothing of the ledger, of a leader or of a
// record: what it knows besides is what the operator commanded, which rules daemons have, by how much a clock was set, and
// what went over the wire between a daemon and its store. Invariants I1 and I3 are checked beside it, and look at records by
// their nature.
//
// What it lets pass beyond one exact bucket is all in this file:
//
//   - the rate of the fastest clock that rho allows, and a slack of two microseconds of the rate for each region, once
//     (ideal.allow): stores' clocks show whole microseconds;
//   - one burst for each region that was ever declared, of an elastic limit, and one more once floors have moved
//     (rule.bursts): each region may save one up, and one that has left may have lent all of the limit beside that;
//   - the most that any version of the rules allows by which a daemon decides, or could after a restart, and for a second
//     longer (world.versionsChanged): daemons hear of rules one after the other. Overrides end by clocks on the wall, which
//     are a tenth of a second apart;
//   - a full bucket of the larger limit where one is raised (ideal.allow): who has not used the limit has that;
//   - what a step of a store's clock is worth, a burst at the most, and what its daemons had borrowed of late
//     (rule.clockSet): buckets take the step for time to refill in, and loans for over, while their holders may still spend;
//   - of a limit that counts, entries that a fast clock shows as over, and what a store's clock that is set shows as passed
//     (book.lasts, book.clockSet): use is promised by the stores' clocks; windows are compared by number only while these agree;
//   - what a daemon spends by a lease that it measured while its clocks stood still, from the lease's true end on
//     until an answer could show it (unseen.over): nothing there shows it;
//   - what a daemon owed its store when it died (node.forgiveDebts): nobody else knows of it.

// bursts is how many bursts regions may hold.
func (r *rule) bursts() int {
	if !r.elastic {
		return 1
	}
	return r.w.declared + b2i(r.w.floorsMoved)
}

// loan is what a store lent to a daemon, at a true time.
type loan struct {
	region int
	amount limit.Tokens
	at     int64
}

// loanLasts is for longer than a loan may be spent, in true time.
const loanLasts = 2 * int64(chunk.Life)

// borrowed notes an answer of a store that lends.
func (b *ideal) borrowed(region int, amount limit.Tokens, now int64) {
	old := 0
	for old < len(b.loans) && b.loans[old].at < now-loanLasts {
		old++
	}
	b.loans = append(b.loans[old:], loan{region, amount, now})
}

// outOf is what a region's daemons may have left of what they borrowed, of a bucket no more than there is.
func (b *ideal) outOf(region int, now int64) limit.Tokens {
	var sum limit.Tokens
	for _, l := range b.loans {
		if l.region == region && l.at >= now-loanLasts {
			sum += l.amount
		}
	}
	return min(sum, b.limit.Capacity)
}

// clockSet: a store's clock was set by d nanoseconds. Its region earns what the step is worth. A step back earns nothing.
func (r *rule) clockSet(region int, d int64) {
	if d <= 0 {
		return
	}
	now, l := r.w.now, r.ideal.limit
	r.ideal.lent(r.ideal.outOf(region, now), now, now+loanLasts)
	if fill := int64(l.Capacity) * second / l.Rate.Micro; d > fill {
		r.ideal.give(l.Capacity, now)
	} else {
		r.ideal.give(limit.Tokens(float64(d)/1e9*float64(l.Rate.Micro))+1, now)
	}
}

// allow changes what may be spent: to more at once, but what another region's bucket
// holds has to be earned; to less only if told so. slack pays for what a correct system may
// be ahead by: a store's clock shows whole microseconds, so each region can be one
// microsecond of its rate early, twice (once when a share moves away, once when it
// arrives). Every other rounding is down. Slack does not add up over time, because
// the errors of one clock's readings cancel out.
func (b *ideal) allow(l limit.Limit, bursts int, less bool, now int64) {
	b.refill(now)
	if !less {
		l, bursts = larger(l, b.limit), max(bursts, b.bursts)
	}
	before := b.most
	// Whoever has not used the limit has a full bucket of the larger one too.
	b.tokens += int64(max(0, l.Capacity-b.limit.Capacity)) * int64(b.bursts) * second
	b.limit, b.bursts = l, bursts
	b.most = int64(bursts) * int64(l.Capacity) * second
	b.rate = l.Rate.Micro + l.Rate.Micro*shell.Fastest(b.rhoPPM)/second + 1
	b.slack = max(b.slack, 2*b.stores*1000*b.rate)
	b.tokens = min(b.tokens, b.most)
	b.allowed += max(0, float64(b.most-before)/1e9)
}

// give adds tokens that were not earned, up to a full bucket and what is out of it.
func (b *ideal) give(amount limit.Tokens, now int64) {
	b.refill(now)
	amount = min(amount, b.limit.Capacity) // more than that no bucket holds
	b.tokens = min(b.tokens+int64(amount)*second, b.most+b.out)
	b.allowed += float64(amount)
}

// lent lets the bucket hold an amount more for a while: it was taken in advance, and the
// store that knows so was made to forget it.
func (b *ideal) lent(amount limit.Tokens, now, until int64) {
	b.refill(now)
	b.out += int64(amount) * second
	b.outUntil = max(b.outUntil, until)
}

// settleRules is how long after the last daemon has other rules a decision by the
// old ones may still be on its way: more than takeLate, on any clock.
const settleRules = second

// versionsChanged: some daemon goes by another version of the rules, or there is
// another one. What may be admitted is the most that any version allows by which a
// daemon still decides.
func (w *world) versionsChanged() {
	w.suspectAll()
	oldest := w.oldestVersion()
	for _, r := range w.rules {
		r.allow(oldest, false)
	}
	w.after(settleRules, func() {
		for _, r := range w.rules {
			r.allow(oldest, oldest == w.oldestVersion())
		}
	})
}

// oldestVersion is the oldest version of the rules that a daemon decides by, or could
// come back to when it starts again.
func (w *world) oldestVersion() uint64 {
	oldest := w.inForce(w.version)
	for _, n := range w.nodes {
		if n.version != 0 {
			oldest = min(oldest, n.version)
		}
	}
	return oldest
}

// allow tells the oracle what the rule may admit: at once if it is more than before,
// and if it is less only when told so.
func (r *rule) allow(oldest uint64, less bool) {
	soon, late := r.w.now+wallApart, r.w.now-wallApart-settleRules
	most := larger(r.at(oldest, soon), r.at(oldest, late))
	for _, t := range r.terms {
		if t.since > oldest {
			most = larger(most, larger(r.at(t.since, soon), r.at(t.since, late)))
		}
	}
	r.ideal.allow(most, r.bursts(), less, r.w.now)
}

// forgiveDebts: a daemon that dies takes with it what it knows of its debts. The
// oracle lets that pass.
func (n *node) forgiveDebts() {
	for _, r := range n.w.rules {
		if owed := n.recalled.Owed(r.key, n.now()); owed > 0 {
			if r.book != nil {
				r.book.forget(n.region, owed)
				continue
			}
			r.ideal.give(owed, n.w.now)
		}
	}
}
