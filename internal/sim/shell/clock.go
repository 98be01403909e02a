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

// Clock is one host's clock, which runs at its own rate. Times of the world ("true" time) are
// nanoseconds since the world's beginning. The zero value shows true time.
type Clock struct {
	Offset int64 // nanoseconds
	Drift  int64 // parts per thousand million by which it runs fast

	stop, stopped int64 // the true time at which it last stopped, and for how long
}

// At returns the clock's reading at a true time, in nanoseconds.
func (c Clock) At(t int64) int64 {
	if t > c.stop {
		t = max(c.stop, t-c.stopped)
	}
	return c.Offset + t + t/second*c.Drift + t%second*c.Drift/second
}

// Stop stops the clock for a duration d from a true time on, which must not be in the past.
func (c *Clock) Stop(at, d int64) {
	c.settle(at, c.Drift)
	c.stop, c.stopped = at, d
}

// Run sets the clock's rate from a true time on, which must not be in the past.
func (c *Clock) Run(at, drift int64) { c.settle(max(at, c.stop+c.stopped), drift) }

// settle replaces the clock by one that never stopped and has always had one rate, and that shows
// the same at a true time.
func (c *Clock) settle(at, drift int64) {
	reading := c.At(at)
	*c = Clock{Drift: drift}
	c.Offset = reading - c.At(at)
}

// Reaches returns the first true time at which the clock's reading is at least r, or a time a few
// nanoseconds later.
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

// Boot returns the reading as a daemon's boot clock.
func (c Clock) Boot(t int64) budget.Instant { return budget.Instant(c.At(t)) }

// Micros returns the reading as a store's clock.
func (c Clock) Micros(t int64) int64 { return c.At(t) / 1000 }

// Fastest returns the drift of the fastest clock that rho allows. With all rates from 1/sqrt(1+rho)
// to sqrt(1+rho), no two differ by more than the factor 1+rho.
func Fastest(rhoPPM int32) int64 {
	return int64((math.Sqrt(1+float64(rhoPPM)/1e6) - 1) * 1e9)
}

// Slowest returns the drift of the slowest clock that rho allows.
func Slowest(rhoPPM int32) int64 {
	return -int64((1 - 1/math.Sqrt(1+float64(rhoPPM)/1e6)) * 1e9)
}

// ClockMap translates a daemon's instants to its store's clock, from the latest sample. It errs on
// the safe side. It does what the daemon's map does, except for the choice among samples. The zero
// value has no sample and assumes a rho of 0.
type ClockMap struct {
	Rho            int64 // parts per million
	known          bool
	store          int64 // microseconds, read between the two instants
	sent, received budget.Instant
	pins           [3]pin         // of a lease's start, of a floor taken back, of a change of floors
	changes        []pin          // of changes of limits
	leap           budget.Instant // when the store's clock was last found to have been set forward
	leapt          bool           // whether that ever happened
}

// pin remembers the store time of a phase's start. Later samples are ever farther from that start,
// and a safe answer stays safe.
type pin struct {
	at    budget.Instant
	store int64
}

// Reset forgets all readings, because the store's contents have changed.
func (m *ClockMap) Reset() { *m = ClockMap{Rho: m.Rho, leap: m.leap, leapt: m.leapt} }

// Sample records a reading of the store's clock, in microseconds, that was taken between two
// instants. It reports whether no clock within rho can show that: the store's clock was set
// forward, or the daemon's clock stopped.
func (m *ClockMap) Sample(store int64, sent, received budget.Instant) (leapt bool) {
	if m.known && store > m.passed(received) {
		leapt, m.leap, m.leapt = true, received, true
		m.Reset()
	}
	m.known, m.store, m.sent, m.received = true, store, sent, received
	return leapt
}

// Restart records a reading of a clock that was set, and forgets all earlier ones. It reports what
// Sample does.
func (m *ClockMap) Restart(store int64, sent, received budget.Instant) (leapt bool) {
	leapt = m.Sample(store, sent, received)
	m.Reset()
	m.Sample(store, sent, received)
	return leapt
}

// RequestedAfter reports whether the present reading was requested after an instant.
func (m *ClockMap) RequestedAfter(e budget.Instant) bool { return m.known && m.sent > e }

// Leapt returns a store time that the store's clock had not passed when it was last found to have
// been set forward; 0 if that never happened.
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

// Until returns a store time that the store's clock has certainly reached at e.
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

// Since returns a store time that the store's clock has certainly not passed at e.
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

// mostChanges bounds the changes of limits whose instants a map remembers.
const mostChanges = 16

// Changed is Since for a change of a limit.
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

// passed is Since by the latest sample alone. The map must have one.
func (m *ClockMap) passed(e budget.Instant) int64 {
	if d := int64(e - m.sent); d >= 0 {
		return m.store + stretch((d+999)/1000, m.Rho)
	} else {
		return max(0, m.store-shrink(-d/1000, m.Rho))
	}
}

// Pinned returns the store time of a phase's start; 0 if it has none yet. Where no clock is set,
// the pins are all that a map remembers besides its latest sample.
func (m *ClockMap) Pinned(e budget.Instant) int64 {
	for _, p := range m.pins {
		if p.at == e {
			return p.store
		}
	}
	return 0
}

// shrink returns us/(1+rho), rounded down.
func shrink(us, rho int64) int64 {
	whole := million + rho
	return us/whole*million + us%whole*million/whole
}

// stretch returns us*(1+rho), rounded up.
func stretch(us, rho int64) int64 { return us + (us*rho+million-1)/million }
