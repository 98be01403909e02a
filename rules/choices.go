package rules

import (
	"time"

	"aliquot/limit"
)

const (
	// minBorrowWait and maxBorrowWait bound borrow_wait. The minimum is too short for a message to
	// another place, and after the maximum the client is gone.
	minBorrowWait = time.Millisecond
	maxBorrowWait = 10 * time.Second
)

// modeQueue is the mode in which a leaky bucket makes requests wait. In the built-in modeMeter it
// does not.
const (
	modeMeter = "meter"
	modeQueue = "queue"
)

func algorithms() []string {
	return []string{TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter, Concurrency}
}

// algorithmNamed returns the algorithm of package limit with this name.
func algorithmNamed(name string) limit.Algorithm {
	switch name {
	case LeakyBucket:
		return limit.LeakyBucket
	case FixedWindow:
		return limit.FixedWindow
	case SlidingWindowLog:
		return limit.SlidingLog
	case SlidingWindowCounter:
		return limit.SlidingCounter
	case Concurrency:
		return limit.Concurrency
	}
	return limit.TokenBucket
}

func leakyModes() []string { return []string{modeMeter, modeQueue} }

func enforcements() []string { return []string{Strict, Elastic, Independent} }

func placements() []string { return []string{Auto, Split, Home} }

func redisFailures() []string { return []string{FailLocal, FailOpen, FailClosed} }

// The values of on_data_loss: what a limit has left of which nothing is known after its region's store
// has lost its contents.
const (
	lossDeny    = "deny"
	lossForgive = "forgive"
)

func dataLosses() []string { return []string{lossDeny, lossForgive} }

// The values of overrun, for a cost that a limit does not hold, and of request_limit, for a limit
// that a descriptor brings.
const (
	overrunDeny       = "deny"
	overrunDebt       = "debt"
	requestLimitDeny  = "ignore"
	requestLimitAllow = "allow"
)

func overruns() []string { return []string{overrunDeny, overrunDebt} }

func requestLimits() []string { return []string{requestLimitDeny, requestLimitAllow} }
