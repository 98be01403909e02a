package budget

import (
	"errors"
	"fmt"
	"slices"
)

// Errors returned by changes of regions.
var (
	ErrRegionExists  = errors.New("budget: the region takes part already")
	ErrUnknownRegion = errors.New("budget: no such region")
	ErrLastRegion    = errors.New("budget: this is the last region that takes part; add another one first")
	ErrRegionGone    = errors.New("budget: the region is drained or fenced; add it again first")
	ErrBadWeight     = fmt.Errorf("budget: a region's weight is a whole number from 1 to %d", MaxWeight)
	ErrStaleFloors   = errors.New("budget: the floors have changed since")
)

// AddRegion declares a region, or takes back a drained or fenced one. The region gets its floor
// once it has joined and the others have made room.
func (l *Ledger) AddRegion(name string, weight int32) error {
	if err := CheckWeight(weight); err != nil {
		return err
	}
	c := l.Config.clone()
	i := c.Index(name)
	switch {
	case i >= 0 && c.Regions[i].Takes():
		return ErrRegionExists
	case i >= 0:
		r := &c.Regions[i]
		r.Weight, r.Joined, r.Fenced = weight, false, false
	default:
		c.Regions = append(c.Regions, RegionConfig{Name: name, Weight: weight})
		for k, shares := range l.entries {
			l.entries[k] = append(slices.Clone(shares), Share{})
		}
	}
	l.changed(c)
	return nil
}

// UpdateRegion sets a region's weight.
func (l *Ledger) UpdateRegion(name string, weight int32) error {
	if err := CheckWeight(weight); err != nil {
		return err
	}
	c := l.Config.clone()
	i := c.Index(name)
	switch {
	case i < 0:
		return ErrUnknownRegion
	case !c.Regions[i].Takes():
		return ErrRegionGone
	case c.Regions[i].Weight == weight:
		return nil
	}
	c.Regions[i].Weight = weight
	l.changed(c)
	return nil
}

// DrainRegion takes a region's floor and shares away in acknowledged steps.
func (l *Ledger) DrainRegion(name string) error {
	c := l.Config.clone()
	i, err := c.leaving(name)
	if err != nil || !c.Regions[i].Takes() {
		return err
	}
	c.Regions[i].Weight = 0
	l.changed(c)
	return nil
}

// FenceRegion takes everything from a region at once. It relies on an operator's assertion that no
// daemon of the region enforces anything any more.
func (l *Ledger) FenceRegion(name string) error {
	c := l.Config.clone()
	i, err := c.leaving(name)
	if err != nil || c.Regions[i].Fenced {
		return err
	}
	r := &c.Regions[i]
	r.Weight, r.Joined, r.Fenced = 0, false, true
	r.Floor, r.Told, r.Low, r.FloorVersion = Share{}, Share{}, Share{}, c.Version+1
	for k, shares := range l.entries {
		shares = slices.Clone(shares)
		shares[i] = Share{}
		l.entries[k] = shares
	}
	l.changed(c)
	return nil
}

// leaving returns the index of a region that may be drained or fenced.
func (c *Config) leaving(name string) (int, error) {
	i := c.Index(name)
	if i < 0 {
		return i, ErrUnknownRegion
	}
	for j := range c.Regions {
		if j != i && c.Regions[j].Takes() && c.Regions[j].Joined {
			return i, nil
		}
	}
	if !c.Regions[i].Takes() {
		return i, nil
	}
	return i, ErrLastRegion
}

// Progress is what a leader has learned since a configuration came into force.
type Progress struct {
	// Acknowledged lists the regions that enforce the floors of the configuration.
	Acknowledged []int
	// Settled: every cold bucket has had time to fill since the last change.
	Settled bool
	// LeasesOver: every lease granted under an earlier configuration has ended.
	LeasesOver bool
}

// AdvanceFloors takes the next step of a change of floors or of timing. The progress was made under
// version. The bounds of regions that have acknowledged come down to their told floors, and the
// room this frees goes to those of them that must grow. It changes nothing and returns
// ErrStaleFloors if another version is in force or there is nothing to do.
func (l *Ledger) AdvanceFloors(version uint64, p Progress) error {
	c := l.Config.clone()
	if version != c.Version {
		return ErrStaleFloors
	}
	for _, i := range p.Acknowledged {
		if i < 0 || i >= len(c.Regions) {
			return fmt.Errorf("%w: index %d", ErrUnknownRegion, i)
		}
	}
	if !c.advance(p) && !(p.Settled && c.settle()) {
		return ErrStaleFloors
	}
	l.changed(c)
	return nil
}

// CanAdvance reports whether this progress would change anything besides the memory of earlier
// floors.
func (c *Config) CanAdvance(p Progress) bool {
	next := c.clone()
	return next.advance(p)
}

func (c *Config) advance(p Progress) (changed bool) {
	changed = c.advanceTiming(p)
	acknowledged := p.Acknowledged
	for _, i := range acknowledged {
		r := &c.Regions[i]
		changed = changed || r.Floor != r.Told || r.Takes() && !r.Joined
		r.Floor = r.Told
		r.Joined = r.Takes()
	}
	targets := c.Targets()
	need := make([]Share, len(targets))
	free := Share{Rate: Unit, Burst: Unit}
	for i, r := range c.Regions {
		free = free.Sub(r.Floor)
		if slices.Contains(acknowledged, i) {
			need[i] = targets[i].Sub(r.Told).Max(Share{})
		}
	}
	rates := ration(free.Rate, need, func(s Share) int32 { return s.Rate })
	bursts := ration(free.Burst, need, func(s Share) int32 { return s.Burst })
	for i := range need {
		if more := (Share{Rate: rates[i], Burst: bursts[i]}); more != (Share{}) {
			r := &c.Regions[i]
			c.tell(r, r.Told.Add(more))
			r.Floor = r.Told
			changed = true
		}
	}
	return changed
}

// settle forgets past changes of floors, once they no longer matter to any bucket.
func (c *Config) settle() bool {
	if !c.Steady() || c.Settled() {
		return false
	}
	for i := range c.Regions {
		r := &c.Regions[i]
		r.Low, r.FloorVersion = r.Told, 0
	}
	return true
}

// tell sets the floor that a region is told.
func (c *Config) tell(r *RegionConfig, share Share) {
	r.Low = r.Low.Min(r.Told).Min(share)
	r.Told, r.FloorVersion = share, c.Version+1
}

// changed puts a new configuration in force. No region is told a floor above its target. A new
// epoch begins, so no plan made under the old floors can be applied: a new leader state machine
// starts, and every region must say Hello.
func (l *Ledger) changed(c Config) {
	for i, t := range c.Targets() {
		r := &c.Regions[i]
		if !r.Told.Within(t) {
			c.tell(r, r.Told.Min(t))
		}
	}
	c.Version++
	var sum Share
	for _, r := range c.Regions {
		if !r.Told.Within(r.Floor) {
			panic("budget: a region is told more than the bound of its floor")
		}
		sum = sum.Add(r.Floor)
	}
	if sum.Rate > Unit || sum.Burst > Unit {
		panic("budget: floors sum above the limit")
	}
	l.Config = c
	l.Epoch++
}
