package regional

import (
	"sync"

	"aliquot/budget"
	"aliquot/limit"
)

// authority is the region's machine behind its lock: what this region may spend.
// Checks and the reporter share it; nothing under the lock waits for anything.
// Whoever makes the machine ask for something leaves that to the reporter, in
// order.
type authority struct {
	now   func() budget.Instant
	clock *clockMap

	mu      sync.Mutex
	region  *budget.Region
	epoch   string
	stamp   uint32
	born    int64
	pending []budget.RegionEffect

	// wake has room for one: the reporter has something to do before its tick.
	wake chan struct{}
}

func newAuthority(region *budget.Region, clock *clockMap, now func() budget.Instant) *authority {
	return &authority{region: region, clock: clock, now: now, wake: make(chan struct{}, 1)}
}

// post gives the machine an event.
func (a *authority) post(ev budget.RegionEvent) {
	a.mu.Lock()
	a.pending = append(a.pending, a.region.Step(ev, a.now())...)
	a.mu.Unlock()
	a.nudge()
}

// tick lets the machine's time pass; for the reporter, which looks at the effects
// right after.
func (a *authority) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, a.region.Step(budget.RegionTick{}, a.now())...)
}

// configure gives a machine that knows no configuration its first, before anything
// is decided by it. A later one comes with its session.
func (a *authority) configure(self int, c budget.Config, initialEpoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.region.Config().Regions) == 0 {
		a.region.SetConfig(self, c, initialEpoch, 0)
	}
}

// effects takes what the machine wants done.
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

// storeEpoch tells which contents the store has, and reports whether they are
// others than before.
func (a *authority) storeEpoch(epoch string) (changed bool) {
	a.mu.Lock()
	changed = a.epoch != epoch
	if changed {
		// Under the lock, so that no view mixes the old store's clock with the
		// new store's epoch.
		a.clock.reset()
		a.epoch, a.stamp = epoch, limit.Stamp(epoch)
		born, ok := limit.EpochBirth(epoch)
		if !ok {
			born = limit.MaxExact // nothing earned yet, for all we know
		}
		a.born = born
		a.pending = append(a.pending, a.region.Step(budget.StoreEpoch{Epoch: epoch}, a.now())...)
	}
	a.mu.Unlock()
	if changed {
		a.nudge()
	}
	return changed
}

// sample takes a reading of the clock of the store that had the given contents.
// One of other contents than the present ones is of another clock.
func (a *authority) sample(epoch string, s sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch && s.store > 0 {
		a.clock.add(s)
	}
}

// currentEpoch is the store's contents as last told; empty before the first time.
func (a *authority) currentEpoch() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// grant fills in the right of every ask at one instant, and returns what the views
// of one store call share.
func (a *authority) grant(groups []*group) header {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	var last budget.Right
	for _, g := range groups {
		for i := range g.asks {
			ask := &g.asks[i]
			ask.right = a.region.Right(ask.key, int64(ask.limit.Capacity), now)
			last = ask.right
		}
	}
	return a.header(last)
}

// header is for the views of rights of one instant; r is any of them.
func (a *authority) header(r budget.Right) header {
	h := header{epoch: a.epoch, stamp: a.stamp, phase: phaseOf(r.Phase)}
	if !a.region.StoreStartedFull() {
		h.birth = a.born
	}
	if r.Until != 0 {
		h.until = a.clock.until(r.Until)
	}
	if r.Since != 0 {
		h.since = a.clock.since(r.Since)
	}
	return h
}

// headerFor is the header for a change of shares: its rights were told by the
// machine.
func (a *authority) headerFor(r budget.Right) header {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.header(r)
}

// observe counts decisions; lost tells that the store had lost a hot key's record.
func (a *authority) observe(seen []observation) {
	if len(seen) == 0 {
		return
	}
	a.mu.Lock()
	now, wake := a.now(), false
	for _, o := range seen {
		if o.lost {
			a.pending = append(a.pending, a.region.Step(budget.StoreLost{}, now)...)
			wake = true
		}
		wake = a.region.Observe(o.key, o.usage, now) || wake
	}
	a.mu.Unlock()
	if wake {
		a.nudge()
	}
}

// observation is one decision, for the machine.
type observation struct {
	key   budget.KeyID
	usage budget.Usage
	lost  bool
}

// info describes the machine.
func (a *authority) info() budget.RegionInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Info(a.now())
}
