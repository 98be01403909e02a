package rules

import "time"

// Values that this version knows by name only, so that a file for a later version
// is refused with the reason and not as a misspelling.
const (
	leakyBucket          = "leaky_bucket"
	fixedWindow          = "fixed_window"
	slidingWindowLog     = "sliding_window_log"
	slidingWindowCounter = "sliding_window_counter"
)

const (
	// minBorrowWait and maxBorrowWait bound borrow_wait: less than the first is no
	// time for a message to another place, and after the second the client is gone.
	minBorrowWait = time.Millisecond
	maxBorrowWait = 10 * time.Second
)

func algorithms() []choice {
	const useBucket = "use token_bucket with the same params: a burst of limit, then limit requests a window"
	return []choice{
		{name: TokenBucket},
		{name: leakyBucket, later: "use token_bucket, with capacity 1 if requests are to be spaced evenly"},
		{name: fixedWindow, later: useBucket},
		{name: slidingWindowLog, later: useBucket},
		{name: slidingWindowCounter, later: useBucket},
	}
}

// countsInWindows tells the algorithms that are stated as limit and window, and in
// no other way.
func countsInWindows(algorithm string) bool {
	switch algorithm {
	case fixedWindow, slidingWindowLog, slidingWindowCounter:
		return true
	}
	return false
}

func leakyModes() []choice { return []choice{{name: "meter"}, {name: "queue"}} }

func enforcements() []choice {
	return []choice{{name: Strict}, {name: Elastic}, {name: Independent}}
}

func placements() []choice {
	return []choice{{name: Auto}, {name: Split}, {name: Home}}
}

func redisFailures() []choice {
	return []choice{{name: FailLocal}, {name: FailOpen}, {name: FailClosed}}
}
