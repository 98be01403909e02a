package shell

import (
	"math"

	"aliquot/budget"
	"aliquot/limit"
)

const (
	second  = int64(1_000_000_000)
	million = int64(1_000_000)
)

// Clock is one machine's clock: it runs at a rate of its own. Times of the world
// ("true" time) are nanoseconds since its beginning. The zero value runs true.
type Clock struct {
	Offset int64 // nanoseconds
	Drift  int64 // parts per thousand million that it runs fast

	stop, stopped int64 // the true time at which it last stood still, and for how long
}

// At is the clock's reading, nanoseconds, at a true time.
func (c Clock) At(t int64) int64 {
	if t > c.stop {
		t = max(c.stop, t-c.stopped)
	}
	return c.Offset + t + t/second*c.Drift + t%second*c.Drift/second
}

// Stop has the clock stand still for a time from a true time on, which is not in the past.
func (c *Clock) Stop(at, d int64) {
	c.settle(at, c.Drift)
	c.stop, c.stopped = at, d
}

// Run has the clock run at another rate from a true time on, which is not in the past.
func (c *Clock) Run(at, drift int64) { c.settle(max(at, c.stop+c.stopped), drift) }

// settle makes the clock one that was never stopped and has always had a rate, and that shows
// what it does at a true time.
func (c *Clock) settle(at, drift int64) {
	reading := c.At(at)
	*c = Clock{Drift: drift}
	c.Offset = reading - c.At(at)
}

// Reaches is the first true time, or one a few nanoseconds later, at which the
// clock's reading is at least r.
func (c Clock) Reaches(r int64) int64 {
	d, speed := r-c.Offset, second+c.Drift
	t := d/speed*second + d%speed*second/speed
	if t > c.stop {
		t += c.stopped
	}
	for c.At(t) < r {
		t++
	}
	return t
}

// Boot is the reading as a daemon's boot clock.
func (c Clock) Boot(t int64) budget.Instant { return budget.Instant(c.At(t)) }

// Micros is the reading as a store's clock.
func (c Clock) Micros(t int64) int64 { return c.At(t) / 1000 }

// Fastest is the drift of the fastest clock that rho allows: with all rates from
// 1/sqrt(1+rho) to sqrt(1+rho), no two differ by more than the factor 1+rho.
func Fastest(rhoPPM int32) int64 {
	return int64((math.Sqrt(1+float64(rhoPPM)/1e6) - 1) * 1e9)
}

// Slowest is the drift of the slowest clock that rho allows.
func Slowest(rhoPPM int32) int64 {
	return -int64((1 - 1/math.Sqrt(1+float64(rhoPPM)/1e6)) * 1e9)
}

// ClockMap translates a daemon's instants to its store's clock from the latest
// sample, each time erring to the safe side. It does what the daemon's does, less
// the choice among samples. The zero value knows no sample and assumes a rho of 0.
type ClockMap struct {
	Rho            int64 // parts per million
	known          bool
	store          int64 // microseconds, read between the two instants
	sent, received budget.Instant
	pins           [3]pin         // of a start of lease, of a floor taken back, of a change of floors
	changes        []pin          // of limits
	leap           budget.Instant // when the store's clock was last found set forward
	leapt          bool           // it was
}

// pin remembers where the start of a phase was mapped to: later samples are ever
// farther from it, and what was a safe answer stays one.
type pin struct {
	at    budget.Instant
	store int64
}

// Reset forgets all readings: the store's contents are others.
func (m *ClockMap) Reset() { *m = ClockMap{Rho: m.Rho, leap: m.leap, leapt: m.leapt} }

// Sample notes a reading of the store's clock, microseconds, that was taken between
// two instants. It reports whether no clock within rho can have come to it: the store's
// was set forward, or the daemon's stood still.
func (m *ClockMap) Sample(store int64, sent, received budget.Instant) (leapt bool) {
	if m.known && store > m.passed(received) {
		leapt, m.leap, m.leapt = true, received, true
		m.Reset()
	}
	m.known, m.store, m.sent, m.received = true, store, sent, received
	return leapt
}

// Anew notes a reading of a clock that was set, and forgets all earlier ones. It reports what
// Sample does.
func (m *ClockMap) Anew(store int64, sent, received budget.Instant) (leapt bool) {
	leapt = m.Sample(store, sent, received)
	m.Reset()
	m.Sample(store, sent, received)
	return leapt
}

// Leapt is a store time that the store's clock had not passed when it was last found to
// have been set forward; 0 if it never was.
func (m *ClockMap) Leapt() int64 {
	switch {
	case !m.leapt:
		return 0
	case !m.known:
		return limit.MaxExact
	default:
		return m.passed(m.leap)
	}
}

// Until is a store time that the store's clock has reached for certain at e.
func (m *ClockMap) Until(e budget.Instant) int64 {
	if !m.known {
		return 0
	}
	if d := int64(e - m.received); d >= 0 {
		return m.store + shrink(d/1000, m.Rho)
	} else {
		return max(0, m.store-stretch((-d+999)/1000, m.Rho))
	}
}

// Since is a store time that the store's clock has not passed for certain at e.
func (m *ClockMap) Since(e budget.Instant) int64 {
	if !m.known {
		return limit.MaxExact
	}
	at := m.passed(e)
	if was := pinned(m.pins[:], e); was != nil {
		was.store = min(was.store, at)
		return was.store
	}
	m.pins[2], m.pins[1], m.pins[0] = m.pins[1], m.pins[0], pin{at: e, store: at}
	return at
}

// mostChanges is how many changes of limits a map remembers the instants of.
const mostChanges = 16

// Changed is Since of a change of a limit.
func (m *ClockMap) Changed(e budget.Instant) int64 {
	if !m.known {
		return limit.MaxExact
	}
	at := m.passed(e)
	if was := pinned(m.changes, e); was != nil {
		was.store = min(was.store, at)
		return was.store
	}
	if len(m.changes) == mostChanges {
		m.changes = m.changes[1:]
	}
	m.changes = append(m.changes, pin{at: e, store: at})
	return at
}

func pinned(pins []pin, e budget.Instant) *pin {
	for i := range pins {
		if pins[i].at == e {
			return &pins[i]
		}
	}
	return nil
}

// passed is Since by the latest sample alone, of which there is one.
func (m *ClockMap) passed(e budget.Instant) int64 {
	if d := int64(e - m.sent); d >= 0 {
		return m.store + stretch((d+999)/1000, m.Rho)
	} else {
		return max(0, m.store-shrink(-d/1000, m.Rho))
	}
}

// Pinned is where the start of a phase was mapped to; 0 if it was not yet. It is all
// that a map remembers beyond its latest sample, where no clock is set.
func (m *ClockMap) Pinned(e budget.Instant) int64 {
	for _, p := range m.pins {
		if p.at == e {
			return p.store
		}
	}
	return 0
}

// shrink is us/(1+rho), rounded down.
func shrink(us, rho int64) int64 {
	whole := million + rho
	return us/whole*million + us%whole*million/whole
}

// stretch is us*(1+rho), rounded up.
func stretch(us, rho int64) int64 { return us + (us*rho+million-1)/million }
