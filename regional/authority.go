package regional

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

// authority is the region's state machine behind its lock: what this region may spend. Checks and
// the reporter share it. Nothing under the lock waits for anything. The effects that a caller makes
// the state machine ask for are left to the reporter, in order.
type authority struct {
	now   func() budget.Instant
	clock *storeclock.Map

	// floors is held for reading by every decision from the reading of its rights until it is made,
	// and for writing while the floor changes. Lock it before mu.
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
	// local is the memory by which checks are decided without the store. It is valid only while
	// stood describes the present.
	local *charge.Table
	stood prefetch.Standing

	// wake has room for one: the reporter has something to do before its tick.
	wake chan struct{}
}

func newAuthority(region *budget.Region, clock *storeclock.Map, now func() budget.Instant) *authority {
	return &authority{
		region: region, clock: clock, now: now, wake: make(chan struct{}, 1),
		borrow: borrowers{arrivals: map[budget.KeyID]*arrival{}, unlent: map[budget.KeyID]unlent{}}, local: charge.NewTable(),
	}
}

// post gives the state machine an event.
func (a *authority) post(ev budget.RegionEvent) {
	a.mu.Lock()
	now := a.now()
	a.pending = append(a.pending, a.region.Step(ev, now)...)
	switch ev := ev.(type) {
	case budget.SharesApplied:
		for i := range ev.Results {
			a.local.EndKey(ev.Results[i].Key)
		}
		a.welcome(ev.Results, now)
	case budget.RulesReplaced:
		a.stood.Rules++
		a.unreported.rulesReplaced(now)
		a.local.End(false)
		a.local.EvictIdle(now)
	}
	a.stand()
	a.mu.Unlock()
	a.nudge()
}

// stand ends the memory by which checks are decided without the store, if anything has changed on
// which that memory rests. The caller holds mu.
func (a *authority) stand() {
	now := prefetch.Standing{
		Session: a.region.Session(), Contents: a.epoch, Config: a.region.Config().Version, Rules: a.stood.Rules,
	}
	if latest := a.region.LatestSession(); latest != a.reports {
		a.keepUntold()
		a.reports = latest
	}
	ends, drops := a.stood.Ends(now)
	if a.stood = now; ends {
		a.local.End(drops)
	}
}

// adopt gives the state machine the answer to a Hello, with the configuration and this region's
// place in it. A change of the floor waits for the decisions under way. So when the state machine
// acknowledges the new floor, every decision was made before that or will be made under the new
// floor.
func (a *authority) adopt(ev budget.RegionEvent, self int, c budget.Config) {
	if a.floor(self) != c.Regions[self].Told {
		a.floors.Lock()
		defer a.floors.Unlock()
	}
	a.post(ev)
}

// floor returns a region's floor in the configuration in force, or zero if it has none.
func (a *authority) floor(region int) budget.Share {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.region.Config().Regions; region < len(now) {
		return now[region].Told
	}
	return budget.Share{}
}

// tick lets time pass for the state machine. The reporter calls it, and handles the effects right
// after it.
func (a *authority) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, a.region.Step(budget.RegionTick{}, a.now())...)
	a.stand()
}

// configure gives a state machine without a configuration its first one, before it decides
// anything. A later one comes with its session.
func (a *authority) configure(self int, c budget.Config, initialEpoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.region.Config().Regions) == 0 {
		a.region.SetConfig(self, c, initialEpoch, 0, a.now())
	}
}

// effects takes and returns the pending effects of the state machine.
func (a *authority) effects() []budget.RegionEffect {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.pending
	a.pending = nil
	return out
}

func (a *authority) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// StoreEpoch records which contents the store has, and reports whether they have changed.
func (a *authority) StoreEpoch(epoch string) (changed bool) {
	a.mu.Lock()
	changed = a.epoch != epoch
	if changed {
		// Under the lock, so that no view combines the old store's clock with the new store's
		// epoch.
		a.clock.Reset()
		a.epoch, a.stamp = epoch, limit.Stamp(epoch)
		born, ok := limit.EpochBirth(epoch)
		if !ok {
			born = limit.MaxExact // for all that is known, nothing has been earned yet
		}
		a.born = born
		a.pending = append(a.pending, a.region.Step(budget.StoreEpoch{Epoch: epoch}, a.now())...)
		a.stand()
	}
	a.mu.Unlock()
	if changed {
		a.nudge()
	}
	return changed
}

// Sample takes a reading of the clock of the store that had the given contents. A reading with
// other contents than the present ones belongs to another clock and is ignored.
func (a *authority) Sample(epoch string, s storeclock.Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch && s.Store > 0 && a.clock.Add(s) {
		a.distrust()
	}
}

// ClockWasSet drops the readings of the store's clock and starts again from one sample.
func (a *authority) ClockWasSet(epoch string, s storeclock.Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch && a.clock.Restart(s) {
		a.distrust()
	}
}

// distrust ends the session, its lease and what was borrowed under it, because the clock that
// measures them may have stopped for a while. The caller holds mu.
func (a *authority) distrust() {
	a.pending = append(a.pending, a.region.Step(budget.ClockStopped{}, a.now())...)
	a.stand()
	a.nudge()
}

// session returns the open session, or zero if there is none.
func (a *authority) session() budget.SessionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Session()
}

// currentEpoch returns the epoch of the store's contents as last learned, or an empty text before
// the first time.
func (a *authority) currentEpoch() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// contents identifies the store's contents as last learned; 0 before the first time.
func (a *authority) contents() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stamp
}

// grant sets the right of every ask at one instant, and returns what the views of one store call
// share.
func (a *authority) grant(groups []*charge.Transaction) charge.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	h := charge.Header{Epoch: a.epoch, At: now, Latest: now.Add(storeclock.MaxFlight), Turn: a.local.Turn.Load(), Rho: a.clock.Drift()}
	for _, g := range groups {
		for i := range g.Asks {
			ask := &g.Asks[i]
			tail := ask.Limit.Tail()
			f := h.Of(tail)
			if f == nil {
				f = a.frame(&h, tail, a.region.Right(budget.KeyID{}, budget.KeyLimit{Tail: tail}, now))
			}
			if ask.Alone() {
				ask.Right = entitlement.Whole(f.Right)
			} else {
				l := ask.KeyLimit()
				ask.Right = a.region.Right(ask.Key, l, now)
				ask.Elsewhere = ask.Local != nil && a.mayCome(ask.Key, ask.Right, l, now)
			}
			a.since(ask)
		}
	}
	h.Deadline = a.clock.Until(h.Latest)
	return h
}

// headerFor returns the header for changes of shares, whose rights the state machine gave all at
// one instant.
func (a *authority) headerFor(asks []charge.Charge) charge.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := charge.Header{Epoch: a.epoch}
	for i := range asks {
		if tail := asks[i].Limit.Tail(); h.Of(tail) == nil {
			a.frame(&h, tail, asks[i].Right)
		}
		a.since(&asks[i])
	}
	return h
}

// since sets the time on the store's clock from which only the present limit of an ask holds. The
// caller holds mu.
func (a *authority) since(ask *charge.Charge) {
	if ask.Changed != nil {
		ask.RuleSince = a.clock.Changed(ask.Changed.At.Add(entitlement.LateUse))
	}
}

// frame adds the header's frame for a tail and returns it. r is any right of the instant to a limit
// with that tail. The caller holds mu.
func (a *authority) frame(h *charge.Header, tail time.Duration, r budget.Right) *charge.Framed {
	daemon := entitlement.Daemon{
		Region: a.region.Self(), Config: a.region.Config(), Stamp: a.stamp, Birth: a.born,
		StartedFull: a.region.StoreStartedFull(), Clock: a.clock,
	}
	if tail > 0 {
		daemon.Clock = storeclock.Unpinned{Map: a.clock}
	}
	h.Frames = append(h.Frames, charge.Framed{Tail: tail, Right: r, Frame: daemon.Frame(r, tail)})
	return &h.Frames[len(h.Frames)-1]
}

// observe reports decisions to the state machine. A decision with lost set means that the store had
// lost a hot key's record.
func (a *authority) observe(seen []charge.Observation) {
	if len(seen) == 0 {
		return
	}
	if a.observeAll(seen) {
		a.nudge()
	}
}

// observeAll does the work of observe, and reports whether the reporter has something to do. A
// panic in it ends a call and not the daemon, so it must not keep the lock.
func (a *authority) observeAll(seen []charge.Observation) (wake bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, o := range seen {
		if o.Lost {
			a.pending = append(a.pending, a.region.Step(budget.StoreLost{}, now)...)
			a.stand()
			wake = true
		}
		if o.Usage.Admitted && !a.region.Reports(o.Key) {
			a.unreported.admit(o.Key, o.Usage.Limit, o.Usage.Cost, now.Add(-decidedWithin))
		}
		if o.Recordless {
			continue
		}
		wake = a.region.Observe(o.Key, o.Usage, now) || wake
	}
	return wake
}

// info describes the state machine.
func (a *authority) info() budget.RegionInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Info(a.now())
}
