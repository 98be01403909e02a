package prefetch

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

const (
	// span is the time over which checks are counted: half of a chunk's life. A key that has just
	// become busy so gets its first chunk while that still helps.
	span = Life / 2
	// one is one check in the units of the mean of checks a span.
	one = 256
	// busyAtOnce is how many checks in one span alone make a key busy.
	busyAtOnce = 2
	// longestPause is the pause, in spans, after which earlier counts mean nothing.
	longestPause = 16
)

// meter estimates the demand for a key: counts of the present span, and a mean over earlier spans
// that forgets by halves. The zero value has counted nothing.
type meter struct {
	began       budget.Instant
	checks      int64
	cost        limit.Tokens
	meanChecks  int64 // in units of 1/one
	meanCost    limit.Tokens
	lastCost    limit.Tokens
	lastChecked budget.Instant
}

// see counts checks of one cost.
func (m *meter) see(cost limit.Tokens, times int64, now budget.Instant) {
	if now.Sub(m.began) >= span {
		m.roll(now)
	}
	m.checks += times
	m.cost = min(m.cost+cost*min(limit.Tokens(times), limit.MaxTokens/max(cost, 1)+1), limit.MaxTokens)
	m.lastCost, m.lastChecked = cost, now
}

// roll begins a new span.
func (m *meter) roll(now budget.Instant) {
	passed := int64(now.Sub(m.began) / span)
	if passed >= longestPause {
		*m = meter{began: now}
		return
	}
	m.meanChecks = (m.meanChecks + m.checks*one) / 2 >> (passed - 1)
	m.meanCost = (m.meanCost + m.cost) / 2 >> (passed - 1)
	m.checks, m.cost = 0, 0
	m.began = m.began.Add(time.Duration(passed) * span)
}

// busy reports whether two checks are expected within a chunk's life.
func (m *meter) busy(now budget.Instant) bool {
	if now.Sub(m.began) >= 2*span {
		return false // there was no check for a whole span
	}
	return m.checks >= busyAtOnce || m.meanChecks >= one
}

// inLife returns what is expected to be asked within a chunk's life.
func (m *meter) inLife() limit.Tokens {
	return max(m.cost, m.meanCost) * limit.Tokens(Life/span)
}
