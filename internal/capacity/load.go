package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Load is the size of an installation. Start from Specified.
type Load struct {
	// Checks is how many a second in all regions; each asks Limits limits and comes in a
	// call of PerCall.
	Checks  float64 `json:"checks_per_s"`
	Limits  float64 `json:"limits_per_check"`
	PerCall float64 `json:"checks_per_call"`
	// Gateways send them; Shards are Redis servers; both in all regions.
	Gateways int `json:"gateways"`
	Shards   int `json:"shards"`
	Regions  int `json:"regions"`
	// Keys is how many are used at a time, each in Users regions, Zipf the exponent of
	// their distribution (0: all alike). HotShare of them are so busy that a region has a
	// share of its own of them, and MovesShare of those move to another region each second.
	Keys       float64 `json:"keys"`
	Users      float64 `json:"regions_per_key"`
	Zipf       float64 `json:"zipf"`
	HotShare   float64 `json:"hot_share"`
	MovesShare float64 `json:"moves_share_per_s"`
	// Cores of a machine that runs a daemon, and how far cores and Redis servers are to be
	// loaded, from 0 to 1.
	Cores int     `json:"cores_per_daemon"`
	Busy  float64 `json:"busy"`
}

// Specified is what Aliquot is made for: ten regions with twenty gateways and six Redis
// servers each.
func Specified() Load {
	return Load{
		Checks: 17_000_000, Limits: 1, PerCall: 100, Gateways: 200, Shards: 60, Regions: 10,
		Keys: 1_000_000, Users: 2, Zipf: 1.1, HotShare: .1, MovesShare: .02, Cores: 8, Busy: .6,
	}
}

// within reports whether f is a number from least to most. NaN is none.
func within(f, least, most float64) bool { return f >= least && f <= most }

// Validate says what is wrong, naming the flags, and what would do.
func (l *Load) Validate() error {
	var errs []error
	between := func(flag string, f, least, most float64) {
		if !within(f, least, most) {
			errs = append(errs, fmt.Errorf("--%s %v: give %v to %v", flag, f, least, most))
		}
	}
	regions := float64(l.Regions)
	between("checks", l.Checks, 1, 1e12)
	between("limits", l.Limits, 1, 1000)
	between("batch", l.PerCall, 1, 1000)
	between("regions", regions, 1, 1000)
	between("keys", l.Keys, 1, 1e12)
	between("zipf", l.Zipf, 0, 5)
	between("hot", l.HotShare, 0, 1)
	between("moves", l.MovesShare, 0, 1)
	between("cores", float64(l.Cores), 1, 1024)
	between("busy", l.Busy, .01, 1)
	if within(regions, 1, 1000) { // else these say nothing of use
		between("gateways", float64(l.Gateways), regions, 1e6)
		between("shards", float64(l.Shards), regions, 1e6)
		between("regions-per-key", l.Users, 1, regions)
	}
	return errors.Join(errs...)
}

// exactRanks are added up one by one; beyond, the sum is its integral.
const exactRanks = 10_000

// harmonic is the sum of i^-s for i from 1 to n.
func harmonic(n, s float64) (sum float64) {
	exact := math.Min(n, exactRanks)
	for i := 1.; i <= exact; i++ {
		sum += math.Pow(i, -s)
	}
	if n <= exact {
		return sum
	}
	from, to := exact+.5, n+.5
	if s == 1 {
		return sum + math.Log(to/from)
	}
	return sum + (math.Pow(to, 1-s)-math.Pow(from, 1-s))/(1-s)
}

// busyKeys is how many of n keys are asked for at least least times a second if all
// together are asked for rate times, and which part of the checks is theirs.
func busyKeys(n, s, rate, least float64) (count, part float64) {
	all := harmonic(n, s)
	first := rate / all // of the busiest key
	switch {
	case first < least:
		return 0, 0
	case s == 0:
		return n, 1
	}
	count = math.Min(n, math.Floor(math.Pow(first/least, 1/s)))
	return count, math.Min(1, harmonic(count, s)/all)
}
