package budget

import "time"

// patience, with half a lease, is how long a region may take to open a session and be
// waited for until it has acknowledged; after that a step of a change of floors goes on
// with those that have. Each step is a new epoch, which renews no lease for half a lease
// while a region is silent: the next one must not begin before leases were renewed.
const patience = 2 * time.Second

// FloorSteps finds out, in one reign, when the next step of a change of floors or of
// timing is due. Each step changes the configuration, which ends the reign; whoever
// reigns next begins with a FloorSteps of its own. The zero value is of no use. Not
// safe for concurrent use.
type FloorSteps struct {
	done  bool // there is no change to carry on
	began Instant
	// held is since when every region that has a floor enforces it; 0: not yet.
	held       Instant
	fill, tail time.Duration
}

// NewFloorSteps is for a reign that begins now under a configuration.
func NewFloorSteps(c *Config, now Instant) FloorSteps {
	return FloorSteps{done: c.Steady() && c.Settled() && !c.Retiming(), began: now}
}

// SetRules tells what the rules in force make a change wait for: fill is how long the
// slowest bucket takes to fill at the smallest floor, on any store's clock, and tail
// the longest Tail of any limit. What has been held so far was held under other rules
// and does not count.
func (s *FloorSteps) SetRules(fill, tail time.Duration) { s.fill, s.tail, s.held = fill, tail, 0 }

// Tail is the longest Tail of any limit, as SetRules was told.
func (s *FloorSteps) Tail() time.Duration { return s.tail }

// Due is what is known for the next step, and whether that is enough for one. While
// longer leases run than are granted now there is none: it would end the reign, and how
// long they run is counted from the beginning of one. Steps that follow each other
// faster than that would keep the change of timing waiting for all of them.
func (s *FloorSteps) Due(l *Leader, now Instant) (Progress, bool) {
	if s.done {
		return Progress{}, false
	}
	acknowledged, all := l.acknowledgements(now, s.tail)
	if !all {
		s.held = 0
	} else if s.held == 0 {
		s.held = now
	}
	p := Progress{
		Acknowledged: acknowledged,
		Settled:      l.cfg.Steady() && !l.cfg.Settled() && s.held != 0 && now.Sub(s.held) >= s.fill,
		LeasesOver:   now.Sub(s.began) >= l.cfg.LeasesOver(),
	}
	if l.cfg.outlasted() && !p.LeasesOver {
		return p, false
	}
	patient := !all && now.Sub(s.began) < patience+l.cfg.Lease/2+l.cfg.adoptAfter(s.tail)
	return p, p.Settled || !patient && l.cfg.CanAdvance(p)
}

// acknowledgements are the regions that enforce the floors of this configuration, and
// whether those are all of whom that can be expected.
func (l *Leader) acknowledgements(now Instant, tail time.Duration) (acknowledged []int, all bool) {
	all = true
	for i := range l.regions {
		switch status := l.Region(i, now, tail); {
		case status.Acknowledged:
			acknowledged = append(acknowledged, i)
		case !status.Absent:
			all = false
		}
	}
	return acknowledged, all
}
