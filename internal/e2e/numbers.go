package e2e

import (
	"time"

	"aliquot/internal/bench"
)

// The limits of RulesYAML for clients of the plans "big" and "small".
var (
	Big   = bench.Limit{Capacity: 300, Refill: 100}
	Small = bench.Limit{Capacity: 60, Refill: 2}
)

// The protocol's static numbers in the cluster.
const (
	// Lease is T. Floor is the part of a limit that a region may spend when it is cut off.
	Lease = 10 * time.Second
	Floor = 1. / 3
	// Convergence bounds the time in which a region gets its share back after it was down, without the time that
	// messages take between regions.
	Convergence = 2 * time.Second
	// FloorAfter is 2T(1+rho)^3: how long a region waits after the last answer of the leader before it takes its floor
	// back.
	FloorAfter = time.Duration(2 * float64(Lease) * 1.02 * 1.02 * 1.02)
)
