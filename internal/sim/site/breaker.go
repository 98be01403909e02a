package site

// breaker keeps a daemon from asking a store that does not answer, like the real daemon's breaker.
// It opens after a number of failures in a row, and then lets one call pass after ever longer
// pauses. The real daemon tries each half second, by a call of its own that charges nothing. Here a
// client's call is the trial and may be lost, so it comes more seldom. The zero value is closed.
type breaker struct {
	failures int
	wait     int64 // nanoseconds; 0 while closed
	until    int64 // true time up to which no call passes
}

const (
	breakerFailures = 5
	breakerFirst    = 500 * milli
	breakerLongest  = 5 * second
)

// passes reports whether a call may be made. While the breaker is open, a call that passes must be
// answered before the next one may pass.
func (b *breaker) passes(now int64) bool {
	if b.wait == 0 {
		return true
	}
	if now < b.until {
		return false
	}
	b.until = now + b.wait
	return true
}

// done records how a call ended.
func (b *breaker) done(now int64, answered bool) {
	switch {
	case answered:
		*b = breaker{}
	case b.wait != 0:
		b.wait = min(2*b.wait, breakerLongest)
		b.until = now + b.wait
	default:
		if b.failures++; b.failures >= breakerFailures {
			b.wait = breakerFirst
			b.until = now + b.wait
		}
	}
}
