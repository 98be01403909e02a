package sim

import (
	"aliquot/internal/prefetch"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// The oracle is one exact bucket for the whole world and each key (ideal), and an exact account of
// use for a counting limit (book). It gets what clients were given, and true time. It reads nothing of
// the ledger, of a leader or of a record. Besides, it knows what the operator commanded, which rules
// daemons have, by how much a clock was set, and what daemons and their stores sent each other.
// Invariants I1 and I3 are checked separately, and by their nature they read records.
//
// This file has everything that the oracle allows beyond one exact bucket:
//
//   - the rate of the fastest clock that rho allows, and a slack of two microseconds of the rate for
//     each region, once (ideal.allow): stores' clocks show whole microseconds;
//   - of an elastic limit, one burst for each region that was ever declared, and one more once floors
//     have moved (rule.bursts): each region may save one up, and one that has left may have lent the
//     whole limit besides;
//   - the most that is allowed by any version of the rules by which a daemon decides, or could decide
//     after a restart, and for a second longer (world.versionsChanged): daemons learn of rules one
//     after the other. Overrides end by wall clocks, which are a tenth of a second apart;
//   - a full bucket of the larger limit where a limit is raised (ideal.allow): a client that has not
//     used the limit has that;
//   - what a step of a store's clock is worth, at most a burst, and what its daemons had recently
//     borrowed (rule.clockSet): buckets refill for the step, and loans end by it, while their holders
//     may still spend;
//   - of a counting limit, entries that a fast clock shows as over, and what a store's clock that is
//     set shows as passed (book.lasts, book.clockSet): use is promised by the stores' clocks. A daemon
//     without its store learns of such a step later (book.clockLeapt). Windows are compared by number
//     only while these clocks agree;
//   - what a daemon spends by a lease that it measured while its clocks were stopped, from the lease's
//     true end until an answer could reveal it (unseen.over): nothing at the daemon reveals it;
//   - of a rule that forgives, one whole limit, once, for each time that a store begins with contents
//     that have no records (world.lost): the region starts afresh where nothing is known;
//   - what a daemon owed its store when it died (node.forgiveDebts): nothing else knows of it.

// bursts returns how many bursts regions may hold.
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

// loanLasts is longer than a loan may be spent, in true time.
const loanLasts = 2 * int64(prefetch.Life)

// borrowed records the answer of a store that lends.
func (b *ideal) borrowed(region int, amount limit.Tokens, now int64) {
	old := 0
	for old < len(b.loans) && b.loans[old].at < now-loanLasts {
		old++
	}
	b.loans = append(b.loans[old:], loan{region, amount, now})
}

// outOf returns what a region's daemons may have left of what they borrowed; of a bucket, no more
// than it lent.
func (b *ideal) outOf(region int, now int64) limit.Tokens {
	var sum limit.Tokens
	for _, l := range b.loans {
		if l.region == region && l.at >= now-loanLasts {
			sum += l.amount
		}
	}
	return min(sum, b.limit.Capacity)
}

// clockSet allows for a store's clock that was set by d nanoseconds. The store's region earns what
// the step is worth. A step back earns nothing.
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

// allow changes what may be spent. A larger limit holds at once, but what another region's bucket
// holds has to be earned. A smaller limit holds only with less. slack covers what a correct system
// may be ahead by. A store's clock shows whole microseconds, so each region can be one microsecond
// of its rate early, twice (once when a share moves away, once when it arrives). Every other
// rounding is down. Slack does not add up over time, because the errors of one clock's readings
// cancel out.
func (b *ideal) allow(l limit.Limit, bursts int, less bool, now int64) {
	b.refill(now)
	if !less {
		l, bursts = larger(l, b.limit), max(bursts, b.bursts)
	}
	before := b.most
	// A client that has not used the limit has a full bucket of the larger limit too.
	b.tokens += int64(max(0, l.Capacity-b.limit.Capacity)) * int64(b.bursts) * second
	b.limit, b.bursts = l, bursts
	b.most = int64(bursts) * int64(l.Capacity) * second
	b.rate = l.Rate.Micro + l.Rate.Micro*shell.Fastest(b.rhoPPM)/second + 1
	b.slack = max(b.slack, 2*b.stores*1000*b.rate)
	b.tokens = min(b.tokens, b.most)
	b.allowed += max(0, float64(b.most-before)/1e9)
}

// give adds tokens that were not earned, at most up to a full bucket and what it has lent.
func (b *ideal) give(amount limit.Tokens, now int64) {
	b.refill(now)
	amount = min(amount, b.limit.Capacity) // no bucket holds more
	b.tokens = min(b.tokens+int64(amount)*second, b.most+b.out)
	b.allowed += float64(amount)
}

// lent lets the bucket hold an additional amount for a while. The amount was borrowed, and the
// store that knew it has lost that memory.
func (b *ideal) lent(amount limit.Tokens, now, until int64) {
	b.refill(now)
	b.out += int64(amount) * second
	b.outUntil = max(b.outUntil, until)
}

// settleRules is how long a decision by the old rules may still be in flight after the last daemon
// has adopted other rules. It is more than takeLate, on any clock.
const settleRules = second

// versionsChanged adapts the oracle after a daemon adopted another version of the rules, or there
// is a new one. The oracle allows the most that any version allows by which a daemon still decides.
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

// oldestVersion returns the oldest version of the rules by which a daemon decides, or could decide
// after a restart.
func (w *world) oldestVersion() uint64 {
	oldest := w.inForce(w.version)
	for _, n := range w.nodes {
		if n.version != 0 {
			oldest = min(oldest, n.version)
		}
	}
	return oldest
}

// allow sets what the rule may admit in the oracle. If that is more than before it holds at once;
// if it is less it holds only with less.
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

// lost allows for a region's store that begins with other contents. What was in use there is
// forgotten, and a bucket may be full once more, now or when the region is next asked.
func (w *world) lost(region int) {
	for _, r := range w.rules {
		switch {
		case !r.forgives:
		case r.book != nil:
			r.book.lost(region)
		default:
			r.ideal.forgiven += r.ideal.limit.Capacity
			r.ideal.allowed += float64(r.ideal.limit.Capacity)
		}
	}
}

// forgiveDebts allows for a daemon that dies, and with it the knowledge of its debts.
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
