package budget

import "time"

// RegionStatus is what the leader knows of a region.
type RegionStatus struct {
	Live           bool
	LeaseRemaining time.Duration
	RulesVersion   uint64
	Incarnation    uint64
	LastReport     Instant // 0: none in this epoch
	// Absent: it has no floor and is not heard, so nothing is expected of it.
	Absent bool
	// Acknowledged: the region enforces the floors it was told in this epoch, and what
	// it used before counts no more.
	Acknowledged bool
}

// adoptAfter is what a region that has learned of a smaller floor gets for the store
// calls that it sent before: ten times the time after which it gives one up.
const adoptAfter = time.Second

// adoptAfter is after how long what a region used of an earlier floor counts no more.
func (c *Config) adoptAfter(tail time.Duration) time.Duration { return adoptAfter + c.lengthen(tail) }

// Region describes region i at now; tail is the longest of any limit.
func (l *Leader) Region(i int, now Instant, tail time.Duration) RegionStatus {
	r := &l.regions[i]
	s := RegionStatus{
		Live:         r.live,
		Absent:       l.cfg.Regions[i].gone() && !r.open,
		Acknowledged: r.open && r.acked && now.Sub(r.adoptedAt) >= l.cfg.adoptAfter(tail),
		RulesVersion: r.rules, Incarnation: r.incarnation, LastReport: r.lastReport,
	}
	if r.renewedAt != 0 && r.leaseEnd > now {
		s.LeaseRemaining = r.leaseEnd.Sub(now)
	}
	return s
}

// KeyStatus is what the leader knows of a hot key beyond the ledger.
type KeyStatus struct {
	Limit      KeyLimit
	PoolTokens int64
	Regions    []KeyRegionStatus
}

// KeyRegionStatus is one region's part in it; amounts are micro-tokens, counted
// since the region's session began.
type KeyRegionStatus struct {
	Sent     Share
	Gen      Gen
	Acked    bool
	Tokens   int64
	Admitted int64
	Offered  int64
	// Lent: holds less than its floor. Silent: not heard of for a lease.
	Lent   bool
	Silent bool
}

// Key describes a hot key; false if k is cold.
func (l *Leader) Key(k KeyID) (KeyStatus, bool) {
	key := l.keys[k]
	if key == nil {
		return KeyStatus{}, false
	}
	s := KeyStatus{Limit: key.limit, PoolTokens: key.pool, Regions: make([]KeyRegionStatus, len(key.regions))}
	for i, kr := range key.regions {
		s.Regions[i] = KeyRegionStatus{
			Sent: kr.sent, Gen: kr.gen, Acked: kr.acked, Tokens: kr.tokens,
			Admitted: kr.demand.admitted, Offered: kr.demand.offered,
			Lent:   kr.sent.Rate < l.cfg.Regions[i].Floor.Rate,
			Silent: !l.regions[i].live,
		}
	}
	return s, true
}
