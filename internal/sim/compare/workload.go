package compare

import (
	"time"

	"aliquot/limit"
)

// Workload is one run: limits, distances, who asks for what, and what breaks. Plain
// data, so that the same can be asked of real daemons.
type Workload struct {
	Name string
	// RTTs are between each region and the coordinators.
	RTTs []time.Duration
	Keys []Bucket
	// Sources ask from the run's beginning on, which is when the regions have found
	// each other.
	Sources []Source
	Length  time.Duration
	// Measured is when figures of use begin to count; the bound counts from the start.
	Measured time.Duration
	Faults   []Fault
	// Drifting lets every clock run as fast or slowly as rho allows.
	Drifting bool
	// Step, if not 0, is when the demand jumps: the time to convergence counts from
	// there, for requests of StepTo.
	Step   time.Duration
	StepTo int
}

// Bucket is a limit as people say it: whole tokens, and tokens a second.
type Bucket struct{ Capacity, Rate int64 }

func (w *Workload) limitOf(key int) limit.Limit {
	return w.Keys[key].limit()
}

func (b Bucket) limit() limit.Limit {
	return limit.Limit{Capacity: limit.Token * limit.Tokens(b.Capacity), Rate: limit.Rate{Micro: b.Rate * int64(limit.Token)}}
}

// timeToEarn is how long a limit takes to earn its burst.
func timeToEarn(l limit.Limit) time.Duration {
	return time.Duration(int64(l.Capacity) * int64(time.Second) / l.Rate.Micro)
}

// Source is a stream of requests of cost 1 for one key.
type Source struct {
	Key    int
	Region int // or Rotating: the next region with every request
	Rate   float64
	// Random arrivals are a Poisson process; others are evenly spaced.
	Random   bool
	Rotating bool
	// From and Until bound it within the run; Until 0: to the end.
	From, Until time.Duration
	// On and Off let it pulse: ask for On, be silent for Off.
	On, Off time.Duration
}

// FaultKind is what breaks.
type FaultKind int

// The faults.
const (
	// Partition takes a region off the network.
	Partition FaultKind = iota
	// LeaderKill kills the coordinating process; Length is how long none coordinates.
	LeaderKill
	// StoreFlush loses what a region's store holds.
	StoreFlush
)

// Fault is one fault of a run.
type Fault struct {
	Kind   FaultKind
	Region int
	At     time.Duration
	Length time.Duration
}
