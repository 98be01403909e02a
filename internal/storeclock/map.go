// Package storeclock translates instants of a daemon's boot clock to the clock of its store.
package storeclock

import (
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// MaxFlight is how long a decision may be on its way to the store. It is well above the time after
// which its daemon has given it up, and below the second after which a region acknowledges a
// smaller floor.
const MaxFlight = 500 * time.Millisecond

const (
	million = 1_000_000
	// defaultRhoPPM holds until the cluster's own rho is known.
	defaultRhoPPM = 20_000
	// sampleSpan is how long samples are collected before the older half is dropped. It is short
	// enough for drift between samples not to matter.
	sampleSpan = time.Second
	// leastLeap is by how many microseconds a store's clock must be ahead of what is possible to
	// count as set forward. Each node of a Redis Cluster has its own clock, a few milliseconds from
	// the others. A leap smaller than the time that a decision may take is not noticed by the
	// decision's deadline either.
	leastLeap = int64(MaxFlight / time.Microsecond)
)

// Sample is one reading of the store's clock. The store had the time store, in microseconds, at
// some instant between sent and received of the daemon's boot clock.
type Sample struct {
	Store          int64
	Sent, Received budget.Instant
}

// early returns the offset store-received. The sample with the smallest offset maps an instant to
// the earliest store time.
func (s Sample) early() int64 { return s.Store - int64(s.Received)/1000 }

// late returns the offset store-sent. The sample with the largest offset maps an instant to the
// latest store time.
func (s Sample) late() int64 { return s.Store - int64(s.Sent)/1000 }

// until returns a store time that the store's clock has certainly reached at instant e, whatever
// the rates of the two clocks within rho.
func (s Sample) until(e budget.Instant, rho int64) int64 {
	if d := int64(e - s.Received); d >= 0 {
		return s.Store + shrink(d/1000, rho)
	} else {
		return s.Store - stretch((-d+999)/1000, rho)
	}
}

// since returns a store time that the store's clock has certainly not passed at instant e.
func (s Sample) since(e budget.Instant, rho int64) int64 {
	if d := int64(e - s.Sent); d >= 0 {
		return s.Store + stretch((d+999)/1000, rho)
	} else {
		return s.Store - shrink((-d)/1000, rho)
	}
}

// shrink returns us/(1+rho), rounded down.
func shrink(us, rho int64) int64 {
	whole := million + rho
	q, r := us/whole, us%whole
	return us - q*rho - (r*rho+whole-1)/whole
}

// stretch returns us*(1+rho), rounded up.
func stretch(us, rho int64) int64 {
	q, r := us/million, us%million
	return us + q*rho + (r*rho+million-1)/million
}

// Map translates instants of the daemon's boot clock to the store's clock. It always errs to
// the safe side: a deadline early, the start of a phase late. It never assumes that two clocks
// agree, only that their rates are within rho of each other.
//
// Worked number, rho = 2 %: a call sent at boot time 100.000 s and answered at 100.004 s carried
// store time R0 = 50.000 s. A lease that ends at boot time 110.004 s ends in the store at 50.000 +
// 10.000/1.02 = 59.803921 s, which is what a store clock that is 2 % slow shows at the lease's end.
// A phase that began at boot time 101.000 s began in the store at 50.000 + 1.000*1.02 = 51.020 s at
// the latest.
//
// Safe for concurrent use.
type Map struct {
	mu   sync.Mutex
	rho  int64
	span [2]span // the present one and the one before
	// before holds the spans of the previous store's clock, which serve until the present store's
	// clock is read.
	before [2]span
	pins   [3]pin // the latest asked for first
	at     budget.Instant
	sent   budget.Instant // when the latest sample was requested
	leap   budget.Instant // when the store's clock was last found set forward; 0: never
	// changes holds the pins of changes of limits, the oldest first.
	changes []pin
}

// span holds the most cautious samples of one stretch of time.
type span struct {
	began       budget.Instant
	early, late Sample
	filled      bool
}

// pin remembers where an instant was mapped to: the start of each of the two phases that have one,
// and that of the floor. Later samples are farther and farther from that instant and would map it
// later and later. A result that was once safe remains safe.
type pin struct {
	at     budget.Instant
	store  int64
	filled bool
}

// New returns a map without samples, by which no right is good.
func New() *Map { return &Map{rho: defaultRhoPPM} }

// SetRho sets the bound on drift, in millionths.
func (c *Map) SetRho(ppm int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rho = int64(ppm)
}

// Drift returns the bound on drift, in millionths.
func (c *Map) Drift() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rho
}

// Reset forgets all samples, because another store has another clock.
func (c *Map) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.span[0].filled {
		c.before = c.span
	}
	c.forget()
}

// Bounds returns a time that the store's clock has certainly reached at an instant, and one that it
// has not passed. known is false if the clock was not read since the store has its contents. The
// times are then those of the previous clock, or 0 and beyond all time without one.
func (c *Map) Bounds(e budget.Instant) (reached, latest int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := c.span
	if known = spans[0].filled; !known {
		c.span = c.before
	}
	reached, latest = c.reached(e), c.notPassed(e)
	c.span = spans
	return reached, latest, known
}

// forget drops all samples and pins of the present clock. The caller holds mu.
func (c *Map) forget() { c.span, c.pins, c.changes, c.at, c.sent = [2]span{}, [3]pin{}, nil, 0, 0 }

// Add takes a sample. It reports whether the store's clock was set forward before it, or the
// daemon's clock stopped for a while; the two cannot be told apart.
func (c *Map) Add(s Sample) (leapt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(s)
}

// Restart takes a sample of a clock that was set, and forgets all earlier ones. It reports the same as
// add.
func (c *Map) Restart(s Sample) (leapt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overtaken(s) {
		return false
	}
	leapt = c.take(s)
	c.forget()
	c.take(s)
	return leapt
}

// overtaken reports whether a sample was in flight for long while a later one was requested and taken. If the store's clock
// was set in between, it shows the time before. A process that was stopped may read such a sample. The caller holds mu.
func (c *Map) overtaken(s Sample) bool { return s.Received.Sub(s.Sent) > MaxFlight && s.Sent < c.sent }

// take does the work of add. A sample far beyond what a clock within rho can show means that the
// store's clock was set forward, or that the daemon's clock stopped for a while. The caller holds
// mu.
func (c *Map) take(s Sample) (leapt bool) {
	if c.overtaken(s) {
		return false
	}
	if passed, known := c.began(s.Received); known && s.Store > passed+leastLeap {
		leapt, c.leap = true, s.Received
		c.forget()
	}
	c.at, c.sent = max(c.at, s.Received), max(c.sent, s.Sent)
	now := &c.span[0]
	if now.filled && s.Received.Sub(now.began) > sampleSpan {
		c.span[1], *now = *now, span{}
	}
	if !now.filled {
		*now = span{began: s.Received, early: s, late: s, filled: true}
		return leapt
	}
	if s.early() < now.early.early() {
		now.early = s
	}
	if s.late() > now.late.late() {
		now.late = s
	}
	return leapt
}

// Age returns the time since the latest sample.
func (c *Map) Age(now budget.Instant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.at)
}

// Until returns the store time at which a right that ends at e must count as over. Without a sample
// it is 0, which is long over.
func (c *Map) Until(e budget.Instant) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reached(e)
}

// reached does the work of Until. The caller holds mu.
func (c *Map) reached(e budget.Instant) int64 {
	best, found := int64(0), false
	for i := range c.span {
		if s := &c.span[i]; s.filled && !(i == 1 && c.stale(s)) {
			if u := s.early.until(e, c.rho); !found || u < best {
				best, found = u, true
			}
		}
	}
	return max(best, 0)
}

// Since returns a store time at which a phase that began at e has certainly begun. Without a sample
// it is beyond all time.
func (c *Map) Since(e budget.Instant) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.began(e)
	if !known {
		return limit.MaxExact
	}
	return c.pinned(e, at)
}

// mostChanges is for how many changes of limits a map remembers the result. Further changes are
// mapped again each time, to a slightly later time the older they are.
const mostChanges = 16

// Changed returns what Since returns, for the change of a limit.
func (c *Map) Changed(e budget.Instant) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.began(e)
	if !known {
		return limit.MaxExact
	}
	i := slices.IndexFunc(c.changes, func(p pin) bool { return p.at == e })
	if i >= 0 {
		c.changes[i].store = min(c.changes[i].store, at)
		return c.changes[i].store
	}
	if len(c.changes) == mostChanges {
		c.changes = c.changes[1:]
	}
	c.changes = append(c.changes, pin{at: e, store: at, filled: true})
	return at
}

// Leapt returns a store time that the store's clock had not passed when it was last found to be set
// forward. It is 0 if that never happened, and beyond all time without a sample.
func (c *Map) Leapt() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leap == 0 {
		return 0
	}
	return c.notPassed(c.leap)
}

// notPassed returns the result of began, or beyond all time without a sample. The caller holds mu.
func (c *Map) notPassed(e budget.Instant) int64 {
	if at, known := c.began(e); known {
		return at
	}
	return limit.MaxExact
}

// began does the work of Since from the samples alone. It returns false without a sample.
func (c *Map) began(e budget.Instant) (at int64, known bool) {
	for i := range c.span {
		if s := &c.span[i]; s.filled && !(i == 1 && c.stale(s)) {
			at, known = max(at, s.late.since(e, c.rho)), true
		}
	}
	return at, known
}

// Unpinned is the clock of limits with a tail. The floor of each tail starts at an instant of its
// own. To remember all of these would push out those of buckets, which earn from their start on.
// Rights with a tail are there or not, so a small drift of the result changes nothing.
type Unpinned struct{ *Map }

// Since returns the same as that of the clock map, but does not remember it.
func (c Unpinned) Since(e budget.Instant) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notPassed(e)
}

// stale reports whether the older span is too old to use: after an idle time it would only add
// drift.
func (c *Map) stale(s *span) bool { return c.span[0].began.Sub(s.began) > 3*sampleSpan }

// pinned returns the least of the safe results for e so far. A store clock that was set back gives
// a lower result, which is then the right one.
func (c *Map) pinned(e budget.Instant, store int64) int64 {
	i := slices.IndexFunc(c.pins[:], func(p pin) bool { return p.filled && p.at == e })
	if i >= 0 {
		store = min(store, c.pins[i].store)
	} else {
		i = len(c.pins) - 1
	}
	copy(c.pins[1:i+1], c.pins[:i])
	c.pins[0] = pin{at: e, store: store, filled: true}
	return store
}
