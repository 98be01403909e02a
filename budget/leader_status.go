package budget

import "time"

// RegionStatus is the leader's view of a region.
type RegionStatus struct {
	Live           bool
	LeaseRemaining time.Duration
	RulesVersion   uint64
	Incarnation    uint64
	Session        uint64  // 0: none is open
	LastReport     Instant // 0: none in this epoch
	// Absent: the region has no floor and is not heard, so nothing is expected of it.
	Absent bool
	// Acknowledged: the region enforces the floors it was told in this epoch, and its earlier use
	// no longer counts.
	Acknowledged bool
}

// adoptAfter is the time that store calls get which a region sent before it learned of a smaller
// floor. It is ten times the time after which the region gives up on a call.
const adoptAfter = time.Second

// adoptAfter returns how long after a smaller floor a region's use of the earlier one still counts.
func (c *Config) adoptAfter(tail time.Duration) time.Duration { return adoptAfter + c.Lengthen(tail) }

// Region describes region i at now. tail is the longest tail of any limit.
func (l *Leader) Region(i int, now Instant, tail time.Duration) RegionStatus {
	r := &l.regions[i]
	s := RegionStatus{
		Live:         r.live,
		Absent:       l.cfg.Regions[i].Gone() && !r.open,
		Acknowledged: r.open && r.acked && now.Sub(r.adoptedAt) >= l.cfg.adoptAfter(tail),
		RulesVersion: r.rules.Version, Incarnation: r.incarnation, LastReport: r.lastReport,
	}
	if r.open {
		s.Session = r.session
	}
	if r.renewedAt != 0 && r.leaseEnd > now {
		s.LeaseRemaining = r.leaseEnd.Sub(now)
	}
	return s
}

// KeyStatus is the leader's view of a hot key, besides the ledger.
type KeyStatus struct {
	Limit      KeyLimit
	PoolTokens int64
	Regions    []KeyRegionStatus
}

// KeyRegionStatus is one region's part of a hot key. Amounts are micro-tokens, counted since the
// region's session began.
type KeyRegionStatus struct {
	Sent     Share
	Gen      Gen
	Acked    bool
	Tokens   int64
	Admitted int64
	Offered  int64
	// Lent: the region holds less than its floor. Silent: the region was not heard for a lease.
	Lent   bool
	Silent bool
}

// Key describes a hot key. It returns false if k is cold.
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
