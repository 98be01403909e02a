package sim

import (
	"math"
	"slices"

	"aliquot/budget"
	"aliquot/limit"
)

// plant is a bug put in from outside, to show that the oracle would see it. The
// zero value is none.
type plant int

const (
	_ plant = iota
	// leaseFromReceipt counts a lease from the receipt of the directive instead of
	// the sending of the report.
	leaseFromReceipt
	// noDeadlines passes no deadline to the store: what the daemon believed when
	// it called is what counts.
	noDeadlines
	// grantTwice counts released tokens twice.
	grantTwice
	// fullOnGrow fills a bucket whose share grows.
	fullOnGrow
	// missingHotIsCold takes a hot key's missing record for a full cold bucket.
	missingHotIsCold
	// fullAfterFlush takes every store contents for the ones that started full.
	fullAfterFlush
	// ledgerOfTargets gives a new leader the shares last sent for liabilities.
	ledgerOfTargets
	// noVerify lets a deposed leader believe that it still leads.
	noVerify
	// resumeEarly takes the floor back after T instead of 2T(1+rho)^3.
	resumeEarly
	// genWithoutEpoch compares generations by their counters alone.
	genWithoutEpoch
	// trustOldRecords lets every store contents pass for the same.
	trustOldRecords
	// floorsUnasked takes every region's acknowledgement of a floor for given.
	floorsUnasked
	// ackByHello takes the answer to a Hello for an acknowledgement of a floor.
	ackByHello
	// lateGrowths lets the ledger take plans that were made under other floors.
	lateGrowths
	// elasticRate refills an elastic bucket at the whole rate.
	elasticRate
	// strictTTL keeps an elastic record only until a strict one would be full.
	strictTTL
	// lowIgnored counts all of the past at the present floor. The simulator has not
	// seen it break anything in 100 worlds, presumably because a region acknowledges
	// a change of floors with a report that also asks for every key it has used to
	// become hot, and a hot key's tokens do not depend on floors. The tables and
	// histories of package limit test it.
	lowIgnored
	// fileLate writes no configuration down but the first.
	fileLate
	// heardIgnored takes the floor back although another daemon was heard.
	heardIgnored
	// noDebit never tells the store what was admitted without it.
	noDebit
)

func (p plant) is(q plant) bool { return p == q }

// right spoils what a region may spend.
func (p plant) right(n *node, r budget.Right) budget.Right {
	now, lease := n.now(), n.w.cfg.Lease
	switch {
	case p == leaseFromReceipt && n.renewed != 0 && now < n.renewed.Add(lease):
		r.Phase, r.Until, r.Since = budget.Live, n.renewed.Add(lease), 0
	case p == resumeEarly && r.Phase == budget.Limbo && n.heard != 0 && now >= n.heard.Add(lease):
		r.Phase, r.Since = budget.CutOff, n.heard.Add(lease)
	}
	return r
}

func (p plant) view(v *limit.View, r *rule, l limit.Limit) {
	switch p {
	case noDeadlines:
		v.Until, v.Since, v.HeardWait = limit.MaxExact, 0, 0
	case genWithoutEpoch:
		v.Gen = budget.Gen{Counter: v.Gen & math.MaxUint32}.Pack()
	case fullAfterFlush:
		v.Birth = 0
	case trustOldRecords:
		v.Stamp = 1
	case elasticRate:
		if r.elastic && !v.Hot {
			v.Floor.Rate = l.Rate
		}
	case lowIgnored:
		v.FloorSince = 0 // the whole past counts at the present floor
	case heardIgnored, resumeEarly: // or the store would know better
		v.HeardWait = 0
	}
}

// keep spoils for how long a cold record is kept.
func (p plant) keep(r limit.Record, v *limit.View) int64 {
	if p == strictTTL && !v.Algorithm.Counts() {
		return limit.TTL(r.Tokens, v.Floor)
	}
	return r.Keep(v)
}

// acknowledges spoils whether a region enforces the floor it was told.
func (p plant) acknowledges(c *coord, i int, status budget.RegionStatus) bool {
	switch p {
	case floorsUnasked:
		return true
	case ackByHello:
		return c.floors.welcomed[i]
	}
	return status.Acknowledged
}

// plan spoils what the log does with a plan of another epoch. A region that was
// added since has no share in it.
func (p plant) plan(made *budget.Plan, l *budget.Ledger) {
	if p != lateGrowths {
		return
	}
	made.Epoch, made.Changes = l.Epoch, slices.Clone(made.Changes)
	for i := range made.Changes {
		for e := &made.Changes[i]; e.Shares != nil && len(e.Shares) < len(l.Config.Regions); {
			e.Shares = append(slices.Clone(e.Shares), budget.Share{})
		}
	}
}

// outlived spoils what becomes of a plan whose reign is over.
func (p plant) outlived(made budget.Plan, l *budget.Ledger) {
	if p == lateGrowths {
		p.plan(&made, l)
		_ = l.Apply(made) // it may also be one that the ledger refuses for good
	}
}

// forgets spoils what is written down.
func (p plant) forgets(file stateFile) bool { return p == fileLate && len(file.cfg.Regions) > 0 }

func (p plant) pack(g budget.Gen) uint64 {
	if p == genWithoutEpoch {
		return g.Counter
	}
	return g.Pack()
}

func (p plant) grant(c budget.ShareChange, l limit.Limit) limit.Tokens {
	switch {
	case p == grantTwice:
		return 2 * limit.Tokens(c.Grant)
	case p == fullOnGrow && c.Before.Share.Burst < c.Share.Burst:
		return l.Capacity
	}
	return limit.Tokens(c.Grant)
}

// record spoils what a take finds.
func (p plant) record(r limit.Record, v *limit.View) limit.Record {
	if p == missingHotIsCold && r.Absent() && v.Hot {
		return limit.Record{Hot: true, Stamp: v.Stamp, Tokens: v.Share.Cap, At: 1, Gen: v.Gen, Share: v.Share}
	}
	return r
}

// ledger spoils what a new leader starts from.
func (p plant) ledger(old *coord, l *budget.Ledger) *budget.Ledger {
	if p != ledgerOfTargets || old == nil {
		return l
	}
	for _, k := range l.Keys() {
		status, ok := old.machine.Key(k)
		if !ok {
			continue
		}
		shares := slices.Clone(l.Shares(k))
		for i, r := range status.Regions { // a region added since is not among them
			shares[i] = r.Sent.Min(shares[i])
		}
		if err := l.Apply(budget.Plan{Epoch: l.Epoch, Changes: []budget.Entry{{Key: k, Shares: shares}}}); err != nil {
			panic(err)
		}
	}
	return l
}
