package budget

import (
	"slices"
	"time"
)

// RegionConfig is one declared region. Its floor moves like a share: it is lowered
// first (Told), the bound of what the region could be enforcing (Floor) follows
// when the region has acknowledged, and only what nobody could be enforcing is
// given to others.
type RegionConfig struct {
	Name string
	// Weight is the region's part in the floors, relative to the others'; 0 once
	// it is drained or fenced.
	Weight int32
	// Joined: its daemon has said Hello since the region was added. Before that it
	// has no floor, and the others need not make room.
	Joined bool
	// Fenced: an operator asserts that no daemon of the region admits anything.
	Fenced bool
	// Floor bounds what the region could be enforcing of any limit when it is cut
	// off. The floors of all regions sum to Unit at the most, in each part.
	Floor Share
	// Told is what the region is told to enforce; at most Floor.
	Told Share
	// Low is the smallest Told since the region's cold buckets were known to be
	// full, and FloorVersion the config version of the latest change of Told; 0
	// once every bucket has had the time to fill since. A bucket last used before
	// the change has earned no more than Low.
	Low          Share
	FloorVersion uint64
	// InitialRedisEpoch is the store contents that started full; empty until
	// the region's first Hello.
	InitialRedisEpoch string
	// DeclaredAtBootstrap: only such a region's first store starts full.
	DeclaredAtBootstrap bool
}

// Takes reports whether the region takes part: it has, or will have, a floor.
func (r *RegionConfig) Takes() bool { return r.Weight > 0 }

// gone: nothing is told to the region and nothing reserved for it.
func (r *RegionConfig) gone() bool { return r.Floor == Share{} && r.Told == Share{} }

// MaxWeight bounds weights, so that a floor of weight 1 beside 63 of the largest is
// still 16 units.
const MaxWeight = 1000

// NewConfig declares regions at equal floors with the given lease and rho.
func NewConfig(names []string, lease time.Duration, rhoPPM int32) Config {
	c := Config{Lease: lease, RhoPPM: rhoPPM, Version: 1}
	for _, name := range names {
		c.Regions = append(c.Regions, RegionConfig{Name: name, Weight: 1, Joined: true, DeclaredAtBootstrap: true})
	}
	for i, t := range c.Targets() {
		r := &c.Regions[i]
		r.Floor, r.Told, r.Low = t, t, t
	}
	return c
}

// Targets are the floors that the weights of the regions amount to, by index.
func (c *Config) Targets() []Share {
	out := make([]Share, len(c.Regions))
	weights := make([]int64, len(c.Regions))
	var sum int64
	for i, r := range c.Regions {
		if r.Joined {
			weights[i] = int64(r.Weight)
			sum += weights[i]
		}
	}
	if sum == 0 {
		return out
	}
	for i, part := range Split(weights) {
		out[i] = Share{Rate: part, Burst: part}
	}
	return out
}

// Steady reports whether every floor is what the weights amount to, and every
// region has joined.
func (c *Config) Steady() bool {
	for i, t := range c.Targets() {
		r := &c.Regions[i]
		if r.Told != t || r.Floor != t || r.Takes() && !r.Joined {
			return false
		}
	}
	return true
}

// Settled reports whether no change of floors matters any more to the age of a
// bucket.
func (c *Config) Settled() bool {
	return !slices.ContainsFunc(c.Regions, func(r RegionConfig) bool { return r.FloorVersion != 0 })
}

// clone is a copy that may be changed.
func (c Config) clone() Config {
	c.Regions = slices.Clone(c.Regions)
	return c
}

// CheckWeight is ErrBadWeight for what cannot be a region's weight.
func CheckWeight(weight int32) error {
	if weight < 1 || weight > MaxWeight {
		return ErrBadWeight
	}
	return nil
}
