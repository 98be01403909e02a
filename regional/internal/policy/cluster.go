package policy

import (
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
)

// Cluster is the configuration of the cluster as the coordinators sent it, in the form of the
// state file.
type Cluster struct {
	ClusterID string        `json:"cluster_id"`
	Lease     time.Duration `json:"lease_ns"`
	// LeaseWait is the lease that every participant waits for while the lease is changed; 0: Lease.
	LeaseWait time.Duration `json:"lease_wait_ns,omitempty"`
	RhoPPM    int32         `json:"rho_ppm"`
	Regions   []Region      `json:"regions"`
	// Version is the version of the floors and of everything else here. A lower one is out of date.
	Version uint64 `json:"config_version"`
	// InitialEpoch is the redis epoch of the first store contents of this region, which started
	// full.
	InitialEpoch string `json:"initial_redis_epoch"`
	// LeaderEpoch is the epoch of the leader that opened the last session. An older share cannot
	// fence a floor that was taken back since.
	LeaderEpoch uint64 `json:"leader_epoch"`
	// Secret keys the hash of client attributes. It must never be logged.
	Secret []byte `json:"hash_secret"`
}

// Region is one declared region.
type Region struct {
	Name string `json:"name"`
	// Floor is the floor that the region is told to enforce when it is cut off.
	Floor budget.Share `json:"floor"`
	// Low is the smallest floor that a bucket of the region may remember, and FloorVersion is the
	// change since which it matters. If FloorVersion is 0, as in a file from before floors could
	// change, Low is Floor.
	Low          budget.Share `json:"low"`
	FloorVersion uint64       `json:"floor_version"`
}

// Normal returns r with Low set to Floor if no change matters.
func (r Region) Normal() Region {
	if r.FloorVersion == 0 {
		r.Low = r.Floor
	}
	return r
}

// Protocol returns the part of the configuration that the budget protocol needs.
func (c *Cluster) Protocol() budget.Config {
	out := budget.Config{Lease: c.Lease, LeaseWait: c.LeaseWait, RhoPPM: c.RhoPPM, Version: c.Version}
	for _, r := range c.Regions {
		out.Regions = append(out.Regions, budget.RegionConfig{
			Name: r.Name, Floor: r.Floor, Told: r.Floor, Low: r.Low, FloorVersion: r.FloorVersion,
		})
	}
	return out
}

// Timing holds the times that decide how long a region that is cut off waits.
type Timing struct {
	lease, wait time.Duration
	rhoPPM      int32
}

// Timing returns the times of the configuration.
func (c *Cluster) Timing() Timing { return Timing{c.Lease, c.LeaseWait, c.RhoPPM} }

// Index returns the position of a region, or -1.
func (c *Cluster) Index(region string) int {
	return slices.IndexFunc(c.Regions, func(r Region) bool { return r.Name == region })
}

func (c *Cluster) equal(o *Cluster) bool {
	return c.ClusterID == o.ClusterID && c.Version == o.Version && c.Timing() == o.Timing() &&
		slices.Equal(c.Regions, o.Regions) && c.InitialEpoch == o.InitialEpoch && c.LeaderEpoch == o.LeaderEpoch &&
		slices.Equal(c.Secret, o.Secret)
}

// check returns an error for floors that no bucket could be divided by.
func (r *Region) check() error {
	whole := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	for _, s := range []budget.Share{r.Floor, r.Low} {
		if s.Rate < 0 || s.Burst < 0 || !s.Within(whole) {
			return fmt.Errorf("the floor of region %q is out of range", r.Name)
		}
	}
	if !r.Low.Within(r.Floor) {
		return fmt.Errorf("the smallest floor of region %q is above its present one", r.Name)
	}
	return nil
}

// Check returns an error for a configuration under which nothing could be enforced.
func (c *Cluster) Check(region string) error {
	switch {
	case c.ClusterID == "":
		return fmt.Errorf("the cluster has no id")
	case len(c.Secret) == 0:
		return fmt.Errorf("there is no secret to hash keys with")
	case c.Lease <= 0 || c.LeaseWait < 0 || c.RhoPPM < 0 || c.RhoPPM > 1_000_000:
		return fmt.Errorf("lease %v or drift bound %d ppm out of range", c.Lease, c.RhoPPM)
	case c.Index(region) < 0:
		return fmt.Errorf("region %q is not declared", region)
	}
	var sum budget.Share
	for _, r := range c.Regions {
		if err := r.check(); err != nil {
			return err
		}
		if sum = sum.Add(r.Floor); !sum.Within(budget.Share{Rate: budget.Unit, Burst: budget.Unit}) {
			return fmt.Errorf("the floors of the regions up to %q sum above the whole limit", r.Name)
		}
	}
	return nil
}
