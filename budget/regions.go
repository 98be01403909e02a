package budget

import (
	"slices"
	"time"
)

// RegionConfig is one declared region. Its floor moves like a share. First the region is told a
// lower floor (Told). The bound of what it could be enforcing (Floor) follows when the region has
// acknowledged. Only what no region could be enforcing goes to others.
type RegionConfig struct {
	Name string
	// Weight is the region's part in the floors, relative to the others; 0 once the region is
	// drained or fenced.
	Weight int32
	// Joined: a daemon of the region has said Hello since the region was added. Before that the
	// region has no floor, and the others need not make room.
	Joined bool
	// Fenced: an operator asserts that no daemon of the region admits anything.
	Fenced bool
	// Floor bounds what the region could be enforcing of any limit while it is cut off. The floors
	// of all regions sum to Unit at most, in each part.
	Floor Share
	// Told is the floor that the region is told to enforce, at most Floor.
	Told Share
	// Low is the smallest Told since the region's cold buckets were known to be full. A bucket last
	// used before the change has earned no more than Low. FloorVersion is the config version of the
	// latest change of Told. It is 0 once every bucket has had time to fill since then.
	Low          Share
	FloorVersion uint64
	// InitialRedisEpoch names the store contents that started full. It is empty until the region's
	// first Hello.
	InitialRedisEpoch string
	// DeclaredAtBootstrap: only the first store of such a region starts full.
	DeclaredAtBootstrap bool
}

// Takes reports whether the region takes part: it has a floor, or will have one.
func (r *RegionConfig) Takes() bool { return r.Weight > 0 }

// Gone reports whether the region is told nothing and nothing is reserved for it.
func (r *RegionConfig) Gone() bool { return r.Floor == Share{} && r.Told == Share{} }

// MaxWeight bounds weights, so that a floor of weight 1 beside 63 floors of the largest weight
// still has 16 units.
const MaxWeight = 1000

// NewConfig returns a configuration of the named regions with equal floors.
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

// Targets returns the floors by the regions' weights, in index order.
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

// Steady reports whether every floor is what the weights amount to and every region has joined.
func (c *Config) Steady() bool {
	for i, t := range c.Targets() {
		r := &c.Regions[i]
		if r.Told != t || r.Floor != t || r.Takes() && !r.Joined {
			return false
		}
	}
	return true
}

// Settled reports whether no bucket is old enough to remember a change of floors.
func (c *Config) Settled() bool {
	return !slices.ContainsFunc(c.Regions, func(r RegionConfig) bool { return r.FloorVersion != 0 })
}

// clone returns a copy that can be changed independently.
func (c Config) clone() Config {
	c.Regions = slices.Clone(c.Regions)
	return c
}

// CheckWeight returns ErrBadWeight if weight cannot be a region's weight.
func CheckWeight(weight int32) error {
	if weight < 1 || weight > MaxWeight {
		return ErrBadWeight
	}
	return nil
}

// Holders returns how many regions may hold tokens of a limit, at least 1.
func (c *Config) Holders() int {
	n := 0
	for i := range c.Regions {
		if r := &c.Regions[i]; r.Takes() || !r.Gone() {
			n++
		}
	}
	return max(n, 1)
}
