package chunk

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

const (
	// span is the time over which checks are counted: half of a chunk's life, so that a
	// key that has just become busy gets its first chunk while that still helps.
	span = Life / 2
	// one is a whole check in the mean of checks a span.
	one = 256
	// busyAtOnce is how many checks in one span make a key busy by themselves.
	busyAtOnce = 2
	// longestPause, in spans, is when what was counted before says nothing any more.
	longestPause = 16
)

// meter estimates what is asked of a key: counts of the present span, and a mean over
// the spans before it that forgets by halves. The zero value has seen nothing.
type meter struct {
	began       budget.Instant
	checks      int64
	cost        limit.Tokens
	meanChecks  int64 // in parts of one
	meanCost    limit.Tokens
	lastCost    limit.Tokens
	lastChecked budget.Instant
}

// see counts a check.
func (m *meter) see(cost limit.Tokens, now budget.Instant) {
	if now.Sub(m.began) >= span {
		m.roll(now)
	}
	m.checks++
	m.cost = min(m.cost+cost, limit.MaxTokens)
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

// busy: two checks are to be expected within a chunk's life.
func (m *meter) busy(now budget.Instant) bool {
	if now.Sub(m.began) >= 2*span {
		return false // nobody asked for a whole span
	}
	return m.checks >= busyAtOnce || m.meanChecks >= one
}

// inLife is what is expected to be asked within a chunk's life.
func (m *meter) inLife() limit.Tokens {
	return max(m.cost, m.meanCost) * limit.Tokens(Life/span)
}
