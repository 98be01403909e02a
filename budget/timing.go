package budget

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of a timing that an operator may set. A lease is renewed once a second, so a lease of two
// seconds lapses when two renewals in a row are lost. A region that is cut off serves next to
// nothing of what it lent for twice the lease, which is twenty minutes for the longest one. Two
// clocks that are kept by NTP may differ by 0.1 %. A clock that is off by a fifth is broken, not
// drifting.
const (
	MinLease  = 2 * time.Second
	MaxLease  = 10 * time.Minute
	MinRhoPPM = 1_000
	MaxRhoPPM = 200_000
)

// ErrBadTiming is the error for a lease or a rho outside the bounds.
var ErrBadTiming = fmt.Errorf("budget: a lease is from %v to %v and rho from %.1f %% to %d %%", MinLease, MaxLease, MinRhoPPM/10_000.0, MaxRhoPPM/10_000)

// wait returns the lease that every participant waits for. No lease that may run or be granted is
// longer.
func (c *Config) wait() time.Duration { return max(c.Lease, c.LeaseWait) }

// NextLease returns the lease after the change of timing that is under way. Without a change it is
// Lease.
func (c *Config) NextLease() time.Duration {
	if c.LeaseNext != 0 {
		return c.LeaseNext
	}
	return c.Lease
}

// Retiming reports whether a change of timing is under way.
func (c *Config) Retiming() bool { return c.LeaseNext != 0 || c.RhoRising }

// longerLeasesMayRun reports whether leases may run that are longer than the lease after the change
// under way.
func (c *Config) longerLeasesMayRun() bool { return c.NextLease() < c.wait() }

// LeasesOver returns how long after a configuration came into force every earlier lease has ended,
// on the leader's clock.
func (c *Config) LeasesOver() time.Duration { return c.Lengthen(c.wait()) }

// SetTiming begins a change of the lease and of rho. From now on the leader grants the smaller of
// the old and the new lease, and every participant waits for the larger, until AdvanceFloors finds
// that nothing depends on the old one. A longer lease is granted once every region waits for it. A
// shorter one is waited for once no longer lease runs. A smaller rho holds at once, because it is
// about clocks, which do not depend on what a region was told. A larger one is used at once too,
// and holds when every region has acknowledged it. SetTiming returns ErrBadTiming for values
// outside the bounds.
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

// advanceTiming ends a change of timing if nothing depends on the old one. It keeps the fact that
// the longer leases have ended, even while some region has yet to acknowledge.
func (c *Config) advanceTiming(p Progress) (changed bool) {
	next := c.NextLease()
	if c.longerLeasesMayRun() {
		if !p.LeasesOver {
			return false
		}
		c.LeaseWait, changed = next, true
	}
	if !c.Retiming() || (c.RhoRising || next > c.Lease) && !c.allAcknowledged(p.Acknowledged) {
		return changed
	}
	c.Lease, c.LeaseWait, c.LeaseNext, c.RhoRising = next, 0, 0, false
	return true
}

// allAcknowledged reports whether every region that may enforce anything has acknowledged.
func (c *Config) allAcknowledged(acknowledged []int) bool {
	for i := range c.Regions {
		if !c.Regions[i].Gone() && !slices.Contains(acknowledged, i) {
			return false
		}
	}
	return true
}
