package document

import (
	"slices"
	"time"

	"aliquot/limit"
)

// The values of algorithm. Package limit explains each algorithm.
const (
	// TokenBucket, the default: a burst of capacity, refilled at refill_rate.
	TokenBucket = "token_bucket"
	// LeakyBucket: a queue of capacity that drains at refill_rate.
	LeakyBucket = "leaky_bucket"
	// FixedWindow: limit in each window of the clock.
	FixedWindow = "fixed_window"
	// SlidingWindowLog: limit in any window of time.
	SlidingWindowLog = "sliding_window_log"
	// SlidingWindowCounter: limit in any window of time, by an estimate.
	SlidingWindowCounter = "sliding_window_counter"
	// Concurrency: limit requests at a time, each for at most window.
	Concurrency = "concurrency"
)

// Values of unit with a meaning. A rule may name any other unit.
const (
	// UnitRequests counts the cost of a request.
	UnitRequests = "requests"
	// UnitConcurrency, the default of the algorithm Concurrency, counts slots: one for a request
	// that names no number.
	UnitConcurrency = "concurrency"
)

// The values of enforcement: how the regions enforce one limit together.
const (
	// Strict: all regions together never admit more than the limit.
	Strict = "strict"
	// Elastic, the default: the rate of all regions together is just as exact, but a key that was
	// idle everywhere may burst once in each region.
	Elastic = "elastic"
	// Independent: each region enforces the limit by itself, so that N regions admit N times the
	// limit.
	Independent = "independent"
)

// The values of placement: where the regions hold one limit.
const (
	// Auto, the default: Home for limits under about ten requests and ten a second a region,
	// otherwise Split.
	Auto = "auto"
	// Split: each region that asks holds a part of the limit.
	Split = "split"
	// Home: while a key is in use one region holds all of it, and the home follows the client.
	Home = "home"
)

// AutoBorrowWait stands for the borrow_wait of a rule that states none. The daemon takes the time that a
// share needs to move, by its round trips to the leader, and at most half a second.
const AutoBorrowWait time.Duration = -1

// The values of on_redis_failure: what decides while a region's store does not answer.
const (
	// FailLocal: a limit in the daemon's memory, below what the region may admit.
	FailLocal = "local"
	// FailOpen: every request passes.
	FailOpen = "open"
	// FailClosed: every request is denied.
	FailClosed = "closed"
)

const (
	// minBorrowWait and maxBorrowWait bound borrow_wait. The minimum is too short for a message to
	// another place. The maximum is below the 10 s after which a daemon ends a call.
	minBorrowWait = time.Millisecond
	maxBorrowWait = 8 * time.Second
)

// The values of mode. In ModeQueue a leaky bucket makes requests wait, in the built-in ModeMeter it
// does not.
const (
	ModeMeter = "meter"
	ModeQueue = "queue"
)

// Algorithms returns the values of algorithm, the default first: the names that package limit knows.
func Algorithms() (names []string) {
	for _, a := range limit.Algorithms() {
		names = append(names, a.String())
	}
	return names
}

// AlgorithmOf returns the algorithm of package limit with this name, and the token bucket for any other name.
func AlgorithmOf(name string) limit.Algorithm {
	return limit.Algorithm(max(0, slices.Index(Algorithms(), name)))
}

func leakyModes() []string { return []string{ModeMeter, ModeQueue} }

// Enforcements returns the values of enforcement.
func Enforcements() []string { return []string{Strict, Elastic, Independent} }

// Placements returns the values of placement, the default first.
func Placements() []string { return []string{Auto, Split, Home} }

// RedisFailures returns the values of on_redis_failure, the default first.
func RedisFailures() []string { return []string{FailLocal, FailOpen, FailClosed} }

// The values of on_data_loss: what a limit has left of which nothing is known after its region's store
// has lost its contents.
const (
	LossDeny    = "deny"
	LossForgive = "forgive"
)

func dataLosses() []string { return []string{LossDeny, LossForgive} }

// The values of overrun, for a cost that a limit does not hold, and of request_limit, for a limit
// that a descriptor brings.
const (
	OverrunDeny       = "deny"
	OverrunDebt       = "debt"
	RequestLimitDeny  = "ignore"
	RequestLimitAllow = "allow"
)

func overruns() []string { return []string{OverrunDeny, OverrunDebt} }

func requestLimits() []string { return []string{RequestLimitDeny, RequestLimitAllow} }
