package budget

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of a timing that an operator may set. A lease is renewed once a second, so
// one of two seconds lapses when two renewals in a row are lost; and a region that is
// cut off serves next to nothing of what it lent for twice the lease, which is twenty
// minutes for the longest. Two clocks that are kept by NTP may differ by 0.1 %; one
// that is off by a fifth is broken, not drifting.
const (
	MinLease  = 2 * time.Second
	MaxLease  = 10 * time.Minute
	MinRhoPPM = 1_000
	MaxRhoPPM = 200_000
)

// ErrBadTiming: a lease or a rho that cannot be set.
var ErrBadTiming = fmt.Errorf("budget: a lease is from %v to %v and rho from %.1f %% to %d %%", MinLease, MaxLease, MinRhoPPM/10_000.0, MaxRhoPPM/10_000)

// wait is what everyone waits for: no lease that may run or be granted is longer.
func (c *Config) wait() time.Duration { return max(c.Lease, c.LeaseWait) }

// NextLease is the lease that a change of timing leads to; Lease, if none is under
// way.
func (c *Config) NextLease() time.Duration {
	if c.LeaseNext != 0 {
		return c.LeaseNext
	}
	return c.Lease
}

// Retiming reports whether a change of timing is under way.
func (c *Config) Retiming() bool { return c.LeaseNext != 0 || c.RhoRising }

// outlasted: leases may run that are longer than what the change under way leads to.
func (c *Config) outlasted() bool { return c.NextLease() < c.wait() }

// LeasesOver is how long after a configuration came into force every lease granted
// before has ended, on the leader's clock.
func (c *Config) LeasesOver() time.Duration { return c.lengthen(c.wait()) }

// SetTiming begins a change of the lease and of rho. What is granted is the smaller
// of the old lease and the new from now on, and what is waited for the larger, until
// AdvanceFloors finds that nobody counts on the old one any more: a longer lease is
// granted when every region waits for it, and a shorter one is waited for when no
// longer one runs. A smaller rho holds at once, for it is about clocks, which do not
// know what is told of them; a larger one is used at once too, and holds when every
// region has acknowledged it.
func (l *Ledger) SetTiming(lease time.Duration, rhoPPM int32) error {
	if lease < MinLease || lease > MaxLease || rhoPPM < MinRhoPPM || rhoPPM > MaxRhoPPM {
		return ErrBadTiming
	}
	c := l.Config.clone()
	if lease == c.NextLease() && rhoPPM == c.RhoPPM {
		return nil
	}
	if lease != c.NextLease() {
		c.Lease, c.LeaseWait, c.LeaseNext = min(c.Lease, lease), max(c.wait(), lease), lease
	}
	c.RhoRising = c.RhoRising || rhoPPM > c.RhoPPM
	c.RhoPPM = rhoPPM
	l.changed(c)
	return nil
}

// advanceTiming ends a change of timing, if nothing counts on the old one. That longer
// leases have ended stays known also while some region has yet to acknowledge.
func (c *Config) advanceTiming(p Progress) (changed bool) {
	next := c.NextLease()
	if c.outlasted() {
		if !p.LeasesOver {
			return false
		}
		c.LeaseWait, changed = next, true
	}
	if !c.Retiming() || (c.RhoRising || next > c.Lease) && !c.allKnow(p.Acknowledged) {
		return changed
	}
	c.Lease, c.LeaseWait, c.LeaseNext, c.RhoRising = next, 0, 0, false
	return true
}

// allKnow reports whether every region that may enforce anything has acknowledged.
func (c *Config) allKnow(acknowledged []int) bool {
	for i := range c.Regions {
		if !c.Regions[i].gone() && !slices.Contains(acknowledged, i) {
			return false
		}
	}
	return true
}
