package regional

import (
	"sync"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
)

// authority is the region's machine behind its lock: what this region may spend.
// Checks and the reporter share it; nothing under the lock waits for anything.
// Whoever makes the machine ask for something leaves that to the reporter, in
// order.
type authority struct {
	now   func() budget.Instant
	clock *clockMap

	// floors is held for reading by every decision from where its rights are read
	// until it is made, and for writing while the floor changes. Lock it before mu.
	floors sync.RWMutex

	mu      sync.Mutex
	region  *budget.Region
	epoch   string
	stamp   uint32
	born    int64
	pending []budget.RegionEffect
	borrow  borrowers

	// wake has room for one: the reporter has something to do before its tick.
	wake chan struct{}
}

func newAuthority(region *budget.Region, clock *clockMap, now func() budget.Instant) *authority {
	return &authority{
		region: region, clock: clock, now: now, wake: make(chan struct{}, 1),
		borrow: borrowers{arrivals: map[budget.KeyID]*arrival{}},
	}
}

// post gives the machine an event.
func (a *authority) post(ev budget.RegionEvent) {
	a.mu.Lock()
	now := a.now()
	a.pending = append(a.pending, a.region.Step(ev, now)...)
	if _, applied := ev.(budget.SharesApplied); applied {
		a.welcome(now)
	}
	a.mu.Unlock()
	a.nudge()
}

// adopt gives the machine the answer to a Hello, with the configuration and this
// region's place in it. A floor that changes waits for the decisions under way: by
// the time the machine acknowledges it, each decision was made, or will be, under
// the new one.
func (a *authority) adopt(ev budget.RegionEvent, self int, c budget.Config) {
	if a.floor(self) != c.Regions[self].Told {
		a.floors.Lock()
		defer a.floors.Unlock()
	}
	a.post(ev)
}

// floor is a region's floor in the configuration in force; zero if it has none.
func (a *authority) floor(region int) budget.Share {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.region.Config().Regions; region < len(now) {
		return now[region].Told
	}
	return budget.Share{}
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
		a.region.SetConfig(self, c, initialEpoch, 0, a.now())
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

// clockWasSet learns the store's clock anew from one sample.
func (a *authority) clockWasSet(epoch string, s sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch {
		a.clock.reset()
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
	common := a.region.Right(budget.KeyID{}, budget.KeyLimit{}, now)
	for _, g := range groups {
		for i := range g.asks {
			ask := &g.asks[i]
			if ask.alone() {
				ask.right = wholeRight(common)
			} else {
				ask.right = a.region.Right(ask.key, ask.keyLimit(), now)
			}
		}
	}
	h := a.header(common)
	h.latest = now.Add(takeAtMost)
	h.deadline = a.clock.until(h.latest)
	return h
}

// takeAtMost is how long a decision may be on its way to the store: well above the
// time after which its daemon has given it up, and below the second after which a
// region acknowledges that its floor is smaller.
const takeAtMost = 5 * storeDeadline

// wholeRight is a region's right to spend a limit that it enforces alone: a floor
// that is all of it, at any time.
func wholeRight(common budget.Right) budget.Right {
	whole := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	common.Floor, common.LimboFloor, common.Low = whole, whole, whole
	return common
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
	if r.FloorSince != 0 {
		// What is older earns less, so later is the safe side.
		h.floorSince = a.clock.since(r.FloorSince)
	}
	if h.phase == limit.Floor {
		h.heardWait = heardWait(a.region.Config())
		// Who was heard just before the contents began, they do not tell.
		if h.birth != 0 {
			h.since = max(h.since, min(h.birth+h.heardWait, limit.MaxExact))
		}
	}
	return h
}

// heardWait is how long every daemon of the region has to be silent, in microseconds
// of the store's clock, before one may take the floor back: what the machine waits
// itself, once more by rho because another clock measures, and as much as the store
// may be behind in what it was told.
func heardWait(c budget.Config) int64 {
	wait := stretch((c.FloorAfter() + budget.MarkEvery).Microseconds(), int64(c.RhoPPM))
	return min(wait, lua.HeardTTL.Microseconds())
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
