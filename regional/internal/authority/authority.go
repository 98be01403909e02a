// Package authority says what this region may spend.
package authority

import (
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/prefetch"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// Authority is the region's state machine behind its lock. It knows what this region may spend.
// Checks and the session share it. Nothing under the lock waits for anything. The session carries
// out the state machine's effects, in order, whichever caller caused them. Safe for concurrent use.
type Authority struct {
	// Now returns the time of the boot clock. Clock maps that to the store's clock.
	Now   func() budget.Instant
	Clock *storeclock.Map

	// floors is held for reading by every decision, and for writing while the floor changes. Lock it
	// before mu.
	floors sync.RWMutex

	mu      sync.Mutex
	region  *budget.Region
	epoch   string
	stamp   uint32
	born    int64
	pending []budget.RegionEffect
	borrow  borrowers
	// unreported is what was admitted and is in no counter of a session. reports is the session whose
	// reports tell the rest.
	unreported unreported
	reports    budget.SessionID
	// roundTrip is the round trip to the leader, in nanoseconds.
	roundTrip atomic.Int64
	// Local is the memory that decides checks without the store. It is valid only while validity
	// describes the present.
	Local    *charge.Table
	validity prefetch.Validity

	// wake has room for one: the session has something to do before its tick.
	wake chan struct{}
}

// New returns the authority over a state machine, by the map of the store's clock and the boot clock.
func New(region *budget.Region, clock *storeclock.Map, now func() budget.Instant) *Authority {
	return &Authority{
		region: region, Clock: clock, Now: now, wake: make(chan struct{}, 1),
		borrow: borrowers{arrivals: map[budget.KeyID]*Arrival{}, vain: map[budget.KeyID]vainWaits{}, moved: map[budget.KeyID]budget.Instant{}}, Local: charge.NewTable(),
	}
}

// HoldFloor keeps the floor as it is until ReleaseFloor. Every decision calls HoldFloor before it
// reads its rights, and ReleaseFloor once it is made. Decisions do not wait for each other. A
// decision holds the floor once, and takes it before all other locks: where a change of the floor
// waits, a further HoldFloor waits for that change.
func (a *Authority) HoldFloor() { a.floors.RLock() }

// ReleaseFloor ends a HoldFloor.
func (a *Authority) ReleaseFloor() { a.floors.RUnlock() }

// Post gives the state machine an event.
func (a *Authority) Post(ev budget.RegionEvent) {
	a.mu.Lock()
	now := a.Now()
	a.pending = append(a.pending, a.region.Step(ev, now)...)
	switch ev := ev.(type) {
	case budget.SharesApplied:
		for i := range ev.Results {
			a.Local.EndKey(ev.Results[i].Key)
		}
		a.wakeArrivalsLocked(ev.Results, now)
	case budget.RulesReplaced:
		a.validity.Rules++
		a.unreported.rulesReplaced(now)
		a.Local.End(false)
		a.Local.EvictIdle(now)
	}
	a.revalidateLocked()
	a.mu.Unlock()
	a.nudge()
}

// revalidateLocked ends the memory that decides checks, if anything that it depends on has changed.
// The caller holds mu.
func (a *Authority) revalidateLocked() {
	now := prefetch.Validity{
		Session: a.region.Session(), Contents: a.epoch, Config: a.region.Config().Version, Rules: a.validity.Rules,
	}
	if latest := a.region.LatestSession(); latest != a.reports {
		a.keepUnreportedLocked()
		a.reports = latest
	}
	ends, drops := a.validity.Ends(now)
	if a.validity = now; ends {
		a.Local.End(drops)
	}
}

// Adopt gives the state machine the answer to a Hello, with the configuration and this region's
// place in it. A change of the floor waits for the decisions under way. So when the state machine
// acknowledges the new floor, every decision was made before that or will be made under the new
// floor.
func (a *Authority) Adopt(ev budget.RegionEvent, self int, c budget.Config) {
	var told budget.Share
	if now := a.Config().Regions; self < len(now) {
		told = now[self].Told
	}
	if told != c.Regions[self].Told {
		a.floors.Lock()
		defer a.floors.Unlock()
	}
	a.Post(ev)
}

// Config returns the configuration in force. Without one it has no regions.
func (a *Authority) Config() budget.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Config()
}

// Tick lets time pass for the state machine. The session calls it, and handles the effects right
// after it.
func (a *Authority) Tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, a.region.Step(budget.RegionTick{}, a.Now())...)
	a.revalidateLocked()
}

// Configure gives a state machine without a configuration its first one, before it decides
// anything. A later one comes with its session.
func (a *Authority) Configure(self int, c budget.Config, initialEpoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.region.Config().Regions) == 0 {
		a.region.SetConfig(self, c, initialEpoch, 0, a.Now())
	}
}

// Effects takes and returns the pending effects of the state machine.
func (a *Authority) Effects() []budget.RegionEffect {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.pending
	a.pending = nil
	return out
}

// Wake returns a channel that receives a value when the session has something to do before its tick.
func (a *Authority) Wake() <-chan struct{} { return a.wake }

func (a *Authority) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// StoreEpoch records which contents the store has, and reports whether they have changed.
func (a *Authority) StoreEpoch(epoch string) (changed bool) {
	a.mu.Lock()
	changed = a.epoch != epoch
	if changed {
		// Under the lock, so that no view combines the old store's clock with the new store's
		// epoch.
		a.Clock.Reset()
		a.epoch, a.stamp = epoch, limit.Stamp(epoch)
		born, ok := limit.EpochBirth(epoch)
		if !ok {
			born = limit.MaxExact // the birth is not known, so nothing counts as earned yet
		}
		a.born = born
		a.pending = append(a.pending, a.region.Step(budget.StoreEpoch{Epoch: epoch}, a.Now())...)
		a.revalidateLocked()
	}
	a.mu.Unlock()
	if changed {
		a.nudge()
	}
	return changed
}

// Sample takes a reading of the clock of the store that had the given contents. A reading with
// other contents than the present ones belongs to another clock and is ignored. stopped: this
// machine's clock may have stopped for a while.
func (a *Authority) Sample(epoch string, s storeclock.Sample) (stopped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return epoch == a.epoch && s.Store > 0 && a.Clock.Add(s) && a.distrustClockLocked()
}

// ClockWasSet drops the readings of the store's clock and starts again from one sample. stopped is as
// in Sample.
func (a *Authority) ClockWasSet(epoch string, s storeclock.Sample) (stopped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return epoch == a.epoch && a.Clock.Restart(s) && a.distrustClockLocked()
}

// distrustClockLocked ends the session, its lease and what was borrowed under it, because the clock
// that measures them may have stopped for a while. It returns true. The caller holds mu.
func (a *Authority) distrustClockLocked() bool {
	a.pending = append(a.pending, a.region.Step(budget.ClockStopped{}, a.Now())...)
	a.revalidateLocked()
	a.nudge()
	return true
}

// Session returns the open session, or zero if there is none.
func (a *Authority) Session() budget.SessionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Session()
}

// CurrentEpoch returns the epoch of the store's contents as last learned, or an empty text before
// the first time.
func (a *Authority) CurrentEpoch() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// Contents identifies the store's contents as last learned; 0 before the first time.
func (a *Authority) Contents() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stamp
}

// Grant sets the right of every charge at one instant, and returns what the views of one store call
// share.
func (a *Authority) Grant(groups []*charge.Transaction) charge.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Now()
	h := charge.Header{Epoch: a.epoch, At: now, Latest: now.Add(storeclock.MaxFlight), Resets: a.Local.Resets.Load(), Rho: a.Clock.Drift()}
	for _, g := range groups {
		for i := range g.Charges {
			c := &g.Charges[i]
			tail := c.Limit.Tail()
			f := h.Of(tail)
			if f == nil {
				f = a.frame(&h, tail, a.region.Right(budget.KeyID{}, budget.KeyLimit{Tail: tail}, now))
			}
			if c.Independent() {
				c.Right = entitlement.Whole(f.Right)
			} else {
				l := c.KeyLimit()
				c.Right = a.region.Right(c.Key, l, now)
				c.Lent = a.region.Elsewhere(c.Right, l, false, c.Elastic())
				c.Elsewhere = c.Local != nil && a.mayArriveLocked(c, l, false, now)
			}
			a.setRuleSinceLocked(c)
		}
	}
	h.Deadline = a.Clock.Until(h.Latest)
	return h
}

// HeaderFor returns the header for changes of shares, whose rights the state machine gave all at
// one instant.
func (a *Authority) HeaderFor(charges []charge.Charge) charge.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := charge.Header{Epoch: a.epoch}
	for i := range charges {
		if tail := charges[i].Limit.Tail(); h.Of(tail) == nil {
			a.frame(&h, tail, charges[i].Right)
		}
		a.setRuleSinceLocked(&charges[i])
	}
	return h
}

// setRuleSinceLocked sets the time on the store's clock from which only the present limit of a charge
// holds. The caller holds mu.
func (a *Authority) setRuleSinceLocked(c *charge.Charge) {
	if c.Changed != nil {
		c.RuleSince = a.Clock.Changed(c.Changed.At.Add(entitlement.LateUse))
	}
}

// frame adds the header's frame for a tail and returns it. r is any right of the instant to a limit
// with that tail. The caller holds mu.
func (a *Authority) frame(h *charge.Header, tail time.Duration, r budget.Right) *charge.Framed {
	daemon := entitlement.Daemon{
		Region: a.region.Self(), Config: a.region.Config(), Stamp: a.stamp, Birth: a.born,
		StartedFull: a.region.StoreStartedFull(), Clock: a.Clock,
	}
	if tail > 0 {
		daemon.Clock = storeclock.Unpinned{Map: a.Clock}
	}
	h.Frames = append(h.Frames, charge.Framed{Tail: tail, Right: r, Frame: daemon.Frame(r, tail)})
	return &h.Frames[len(h.Frames)-1]
}

// Observe tells the state machine of decisions. If Lost is set in one, the store had lost a hot key's
// record.
func (a *Authority) Observe(seen []charge.Observation) {
	if len(seen) == 0 {
		return
	}
	if a.observeAll(seen) {
		a.nudge()
	}
}

// observeAll does the work of Observe, and reports whether the session has something to do. A panic
// in it ends a call and not the daemon, so it releases the lock by defer.
func (a *Authority) observeAll(seen []charge.Observation) (wake bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Now()
	for i := range seen {
		o := &seen[i]
		if o.Lost {
			a.pending = append(a.pending, a.region.Step(budget.StoreLost{}, now)...)
			a.revalidateLocked()
			wake = true
		}
		if hot, told := a.region.Reports(o.Key); !told && matters(&o.Usage, hot) {
			a.unreported.admit(o.Key, o.Usage.Limit, o.Usage.Cost, now.Add(-budget.ObservedWithin))
		}
		if o.Recordless {
			continue
		}
		wake = a.region.Observe(o.Key, o.Usage, now) || wake
	}
	return wake
}

// Right returns what the region may spend of a key now.
func (a *Authority) Right(k budget.KeyID, l budget.KeyLimit) budget.Right {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Right(k, l, a.Now())
}

// Rules returns the rules that the state machine knows.
func (a *Authority) Rules() budget.RulesState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Rules()
}

// Validity returns what the memory of borrowed tokens depends on.
func (a *Authority) Validity() prefetch.Validity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.validity
}

// Info describes the state machine.
func (a *Authority) Info() budget.RegionInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Info(a.Now())
}
