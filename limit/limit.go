// Package limit holds the reference implementations of the limiting algorithms: pure functions over
// values, with the time as an argument. The Lua scripts in package lua are their twins and are
// tested against them.
package limit

import "time"

// Tokens is an amount in micro-tokens. A request of cost 1 takes Token. Every amount stays below
// 2^53, the largest integer that Lua counts exactly.
type Tokens int64

// Token is one whole token.
const Token Tokens = 1_000_000

// MaxTokens is the largest capacity of a bucket: 1e9 whole tokens.
const MaxTokens = 1_000_000_000 * Token

// Rate is a refill rate: Micro micro-tokens a second plus Frac millionths of a micro-token a second
// (0 <= Frac < 1e6). The fraction keeps slow limits exact: one request a day is 11.574074
// micro-tokens a second.
type Rate struct {
	Micro int64
	Frac  int64
}

// Limit is what a rule allows for the whole world. A bucket has a Capacity that is refilled at
// Rate. A counting limit has Capacity rights and a Window of whole microseconds, above 0: the
// length of the window, or the longest time that a slot is in use.
type Limit struct {
	Algorithm Algorithm
	Capacity  Tokens
	Rate      Rate
	Window    time.Duration
}

// Decision is the answer for one limit.
type Decision struct {
	Allowed bool
	// Limit is the global capacity in whole tokens.
	Limit int64
	// Remaining is what this region can admit now, in whole tokens.
	Remaining int64
	// ResetAfter is the time until the local bucket is full, or until nothing is in use.
	ResetAfter time.Duration
	// Delay is the time after which an admitted request should proceed (leaky bucket only). What is
	// ahead of it in the queue has then drained. It is rounded up.
	Delay time.Duration
	// RetryAfter is the time until the same cost would be admitted, rounded up. It is zero when
	// allowed, and Never when no wait helps.
	RetryAfter time.Duration
}

// Never is the RetryAfter of a cost that no wait makes admissible.
const Never time.Duration = 1<<63 - 1
