package site

// breaker keeps a daemon from asking a store that does not answer, like the real daemon's breaker.
// It opens after a number of failures in a row, and then lets one call pass after each pause. The
// zero value is closed.
type breaker struct {
	failures int
	until    int64 // true time up to which no call passes; 0: closed
}

const (
	breakerFailures = 5
	breakerPause    = 500 * milli
)

func (b *breaker) open() bool { return b.until != 0 }

// passes reports whether a call may be made. While the breaker is open, a call that passes must be
// answered before the next one may pass.
func (b *breaker) passes(now int64) bool {
	if !b.open() {
		return true
	}
	if now < b.until {
		return false
	}
	b.until = now + breakerPause
	return true
}

// done records how a call ended.
func (b *breaker) done(now int64, answered bool) {
	if answered {
		*b = breaker{}
		return
	}
	if b.failures++; b.failures >= breakerFailures {
		b.until = now + breakerPause
	}
}
