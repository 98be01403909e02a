package sim

import (
	"aliquot/internal/sim/oracle"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/site"
)

// The oracle is one exact bucket for the whole world and each key (oracle.Bucket), and an exact
// account of use for a counting limit (oracle.Book). It gets what clients were given, and true time.
// It reads nothing of the ledger, of a leader or of a record. Besides, it knows what the operator
// commanded, which rules daemons have, by how much a clock was set, and what daemons and their stores
// sent each other.
// Invariants I1 and I3 are checked separately, and by their nature they read records.
//
// This file has everything that the oracle allows beyond one exact bucket:
//
//   - the rate of the fastest clock that rho allows, and a slack of two microseconds of the rate for
//     each region, once (Bucket.Allow): stores' clocks show whole microseconds;
//   - of an elastic limit, one burst for each region that was ever declared, and one more once floors
//     have moved (world.bursts): each region may save one up, and one that has left may have lent the
//     whole limit besides;
//   - the most that is allowed by any version of the rules by which a daemon decides, or could decide
//     after a restart, and for a second longer (world.VersionsChanged): daemons learn of rules one
//     after the other. Overrides end by wall clocks, which are a tenth of a second apart;
//   - a full bucket of the larger limit where a limit is raised (Bucket.Allow): a client that has not
//     used the limit has that;
//   - what a step of a store's clock is worth, at most a burst, and what its daemons had recently
//     borrowed (Bucket.ClockSet): buckets refill for the step, and loans end by it, while their holders
//     may still spend;
//   - of a counting limit that changes, the largest capacity by which what is in use may have been admitted,
//     and the shortest window by which anybody decides or has decided since an admission. While windows of two
//     lengths are in force, two capacities, and then the account by windows begins with nothing (Book.Allow);
//   - of a counting limit, entries that a fast clock shows as over, and what a store's clock that is
//     set shows as passed (Book.Lasts, Book.ClockSet): use is promised by the stores' clocks. A daemon
//     without its store goes by the clock before until it has read it (Book.ClockRead). Windows are compared by number
//     only while these clocks agree;
//   - what a daemon spends by a lease that it measured while its clocks were stopped, from the lease's
//     true end until an answer could reveal it (unseen.over): nothing at the daemon reveals it;
//   - of a rule that forgives, one whole limit, once, for each time that a store begins with contents
//     that have no records (world.Lost): the region starts afresh where nothing is known;
//   - what a daemon owed its store when it died (world.ForgiveDebts): nothing else knows of it.

// bursts returns how many bursts regions may hold.
func (w *world) bursts(r *rule.Rule) int {
	if !r.Elastic {
		return 1
	}
	return w.declared + b2i(w.floorsMoved)
}

// settleRules is how long a decision by the old rules may still be in flight after the last daemon
// has adopted other rules. It is more than takeLate, on any clock.
const settleRules = second

// VersionsChanged adapts the oracle after a daemon adopted another version of the rules, or there
// is a new one. The oracle allows the most that any version allows by which a daemon still decides.
func (w *world) VersionsChanged() {
	w.SuspectAll()
	oldest := w.oldestVersion()
	for _, r := range w.Rules {
		w.allow(r, oldest, false)
	}
	w.After(settleRules, func() {
		for _, r := range w.Rules {
			w.allow(r, oldest, oldest == w.oldestVersion())
		}
	})
}

// oldestVersion returns the oldest version of the rules by which a daemon decides, or could decide
// after a restart.
func (w *world) oldestVersion() uint64 {
	return w.LeastVersion(w.inForce(w.version))
}

// allow sets what the rule may admit in the oracle. If that is more than before it holds at once;
// if it is less it holds only with less.
func (w *world) allow(r *rule.Rule, oldest uint64, less bool) {
	soon, late := w.Now()+rule.WallApart, w.Now()-rule.WallApart-settleRules
	most := r.At(oldest, soon)
	shortest, longest := most.Window, most.Window
	see := func(version uint64) {
		for _, at := range [...]int64{soon, late} {
			l := r.At(version, at)
			most, shortest, longest = oracle.Larger(most, l), min(shortest, l.Window), max(longest, l.Window)
		}
	}
	see(oldest)
	for _, t := range r.Terms {
		if t.Since > oldest {
			see(t.Since)
		}
	}
	r.Ideal.Allow(most, w.bursts(r), less, w.Now())
	if r.Book != nil {
		r.Book.Allow(most.Capacity, shortest, longest, less)
	}
}

// Lost allows for a region's store that begins with other contents. What was in use there is
// forgotten, and a bucket may be full once more, now or when the region is next asked.
func (w *world) Lost(region int) {
	for _, r := range w.Rules {
		switch {
		case !r.Forgives:
		case r.Book != nil:
			r.Book.Lost(region)
		default:
			r.Ideal.Forgive()
		}
	}
}

// ForgiveDebts allows for a daemon that dies, and with it the knowledge of its debts.
func (w *world) ForgiveDebts(n *site.Node) {
	for _, r := range w.Rules {
		if owed := n.Owes(r); owed > 0 {
			if r.Book != nil {
				slots, cost := n.OwedSlots(r)
				for _, slot := range slots {
					r.Book.Release(n.Region, slot)
				}
				r.Book.Forget(n.Region, owed-cost)
				continue
			}
			r.Ideal.Give(owed, w.Now())
		}
	}
}
