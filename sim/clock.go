package sim

import (
	"math"

	"aliquot/budget"
	"aliquot/limit"
)

const (
	second  = int64(1_000_000_000)
	milli   = int64(1_000_000)
	million = int64(1_000_000)
)

// clock is one machine's clock: it runs at a steady rate of its own. Times of the
// world ("true" time) are nanoseconds since its beginning.
type clock struct {
	offset int64
	drift  int64 // parts per thousand million that it runs fast
}

// at is the clock's reading, nanoseconds, at a true time.
func (c clock) at(t int64) int64 {
	return c.offset + t + t/second*c.drift + t%second*c.drift/second
}

// reaches is the first true time, or one a few nanoseconds later, at which the
// clock's reading is at least r.
func (c clock) reaches(r int64) int64 {
	d, speed := r-c.offset, second+c.drift
	t := d/speed*second + d%speed*second/speed
	for c.at(t) < r {
		t++
	}
	return t
}

// boot is the reading as a daemon's boot clock.
func (c clock) boot(t int64) budget.Instant { return budget.Instant(c.at(t)) }

// micros is the reading as a store's clock.
func (c clock) micros(t int64) int64 { return c.at(t) / 1000 }

// fastest is the drift of the fastest clock that rho allows: with all rates from
// 1/sqrt(1+rho) to sqrt(1+rho), no two differ by more than the factor 1+rho.
func fastest(rhoPPM int32) int64 {
	return int64((math.Sqrt(1+float64(rhoPPM)/1e6) - 1) * 1e9)
}

// slowest is the drift of the slowest clock that rho allows.
func slowest(rhoPPM int32) int64 {
	return -int64((1 - 1/math.Sqrt(1+float64(rhoPPM)/1e6)) * 1e9)
}

// clockMap translates a daemon's instants to its store's clock from the latest
// sample, each time erring to the safe side. It does what the daemon's does, less
// the choice among samples.
type clockMap struct {
	rho            int64
	known          bool
	store          int64 // microseconds, read between the two instants
	sent, received budget.Instant
	pins           [3]pin // of a start of lease, of a floor taken back, of a change of floors
}

// pin remembers where the start of a phase was mapped to: later samples are ever
// farther from it, and what was a safe answer stays one.
type pin struct {
	at    budget.Instant
	store int64
}

func (m *clockMap) reset() { *m = clockMap{rho: m.rho} }

func (m *clockMap) sample(store int64, sent, received budget.Instant) {
	m.known, m.store, m.sent, m.received = true, store, sent, received
}

// until is a store time that the store's clock has reached for certain at e.
func (m *clockMap) until(e budget.Instant) int64 {
	if !m.known {
		return 0
	}
	if d := int64(e - m.received); d >= 0 {
		return m.store + shrink(d/1000, m.rho)
	} else {
		return max(0, m.store-stretch((-d+999)/1000, m.rho))
	}
}

// since is a store time that the store's clock has not passed for certain at e.
func (m *clockMap) since(e budget.Instant) int64 {
	if !m.known {
		return limit.MaxExact
	}
	var at int64
	if d := int64(e - m.sent); d >= 0 {
		at = m.store + stretch((d+999)/1000, m.rho)
	} else {
		at = max(0, m.store-shrink(-d/1000, m.rho))
	}
	for i := range m.pins {
		if m.pins[i].at == e {
			m.pins[i].store = min(m.pins[i].store, at)
			return m.pins[i].store
		}
	}
	m.pins[2], m.pins[1], m.pins[0] = m.pins[1], m.pins[0], pin{at: e, store: at}
	return at
}

// shrink is us/(1+rho), rounded down.
func shrink(us, rho int64) int64 {
	whole := million + rho
	return us/whole*million + us%whole*million/whole
}

// stretch is us*(1+rho), rounded up.
func stretch(us, rho int64) int64 { return us + (us*rho+million-1)/million }
