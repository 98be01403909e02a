package regional

import (
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/internal/rights"
	"aliquot/limit"
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
	// unreported is what is admitted without a session.
	unreported unreported
	// roundTrip is how far the leader is, in nanoseconds.
	roundTrip atomic.Int64
	// local is what checks are decided by without the store; it stands on stood.
	local *localTable
	stood chunk.Standing

	// wake has room for one: the reporter has something to do before its tick.
	wake chan struct{}
}

func newAuthority(region *budget.Region, clock *clockMap, now func() budget.Instant) *authority {
	return &authority{
		region: region, clock: clock, now: now, wake: make(chan struct{}, 1),
		borrow: borrowers{arrivals: map[budget.KeyID]*arrival{}, unlent: map[budget.KeyID]unlent{}}, local: newLocalTable(),
	}
}

// post gives the machine an event.
func (a *authority) post(ev budget.RegionEvent) {
	a.mu.Lock()
	now := a.now()
	a.pending = append(a.pending, a.region.Step(ev, now)...)
	switch ev := ev.(type) {
	case budget.SharesApplied:
		for i := range ev.Results {
			a.local.endKey(ev.Results[i].Key)
		}
		a.welcome(ev.Results, now)
	case budget.RulesReplaced:
		a.stood.Rules++
		a.local.end(false)
		a.local.evictIdle(now)
	}
	a.stand()
	a.mu.Unlock()
	a.nudge()
}

// stand ends what checks were decided by without the store, if it stood on something
// that is not any more. The caller holds mu.
func (a *authority) stand() {
	now := chunk.Standing{
		Session: a.region.Session(), Contents: a.epoch, Config: a.region.Config().Version, Rules: a.stood.Rules,
	}
	ends, drops := a.stood.Ends(now)
	if a.stood = now; ends {
		a.local.end(drops)
	}
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
	a.stand()
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
		a.stand()
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
	if epoch == a.epoch && s.store > 0 && a.clock.add(s) {
		a.distrust()
	}
}

// clockWasSet learns the store's clock anew from one sample.
func (a *authority) clockWasSet(epoch string, s sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch == a.epoch && a.clock.anew(s) {
		a.distrust()
	}
}

// distrust ends the session, its lease and what was taken in advance under it: the clock that
// measures them may have stood still. The caller holds mu.
func (a *authority) distrust() {
	a.pending = append(a.pending, a.region.Step(budget.ClockStopped{}, a.now())...)
	a.stand()
	a.nudge()
}

// session is the one that is open; zero if none is.
func (a *authority) session() budget.SessionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Session()
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
	h := header{epoch: a.epoch, at: now, latest: now.Add(takeAtMost), turn: a.local.turn.Load(), rho: a.clock.drift()}
	for _, g := range groups {
		for i := range g.asks {
			ask := &g.asks[i]
			tail := ask.limit.Tail()
			f := h.of(tail)
			if f == nil {
				f = a.frame(&h, tail, a.region.Right(budget.KeyID{}, budget.KeyLimit{Tail: tail}, now))
			}
			if ask.alone() {
				ask.right = wholeRight(f.right)
			} else {
				l := ask.keyLimit()
				ask.right = a.region.Right(ask.key, l, now)
				ask.elsewhere = ask.local != nil && a.mayCome(ask.key, ask.right, l, now)
			}
			a.since(ask)
		}
	}
	h.deadline = a.clock.Until(h.latest)
	return h
}

// headerFor is the header for changes of shares, whose rights the machine told, all at
// one instant.
func (a *authority) headerFor(asks []ask) header {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := header{epoch: a.epoch}
	for i := range asks {
		if tail := asks[i].limit.Tail(); h.of(tail) == nil {
			a.frame(&h, tail, asks[i].right)
		}
		a.since(&asks[i])
	}
	return h
}

// since notes from when on, by the store's clock, only the present limit of an ask holds. The
// caller holds mu.
func (a *authority) since(ask *ask) {
	if ask.changed != nil {
		ask.ruleSince = a.clock.changed(ask.changed.At.Add(rights.LateUse))
	}
}

// frame makes the header's frame of a tail; r is any right of the instant to a limit
// with that tail. The caller holds mu.
func (a *authority) frame(h *header, tail time.Duration, r budget.Right) *framed {
	daemon := rights.Daemon{
		Region: a.region.Self(), Config: a.region.Config(), Stamp: a.stamp, Birth: a.born,
		StartedFull: a.region.StoreStartedFull(), Clock: a.clock,
	}
	if tail > 0 {
		daemon.Clock = tailClock{a.clock}
	}
	h.frames = append(h.frames, framed{tail: tail, right: r, frame: daemon.Frame(r, tail)})
	return &h.frames[len(h.frames)-1]
}

// takeAtMost is how long a decision may be on its way to the store: well above the
// time after which its daemon has given it up, and below the second after which a
// region acknowledges that its floor is smaller.
const takeAtMost = 5 * storeDeadline

// wholeRight is a region's right to spend a limit that it enforces alone: a floor
// that is all of it, at any time.
func wholeRight(common budget.Right) budget.Right {
	whole := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	common.Floor, common.Told, common.LimboFloor, common.Low = whole, whole, whole, whole
	return common
}

// observe counts decisions; lost tells that the store had lost a hot key's record.
func (a *authority) observe(seen []observation) {
	if len(seen) == 0 {
		return
	}
	if a.observeAll(seen) {
		a.nudge()
	}
}

// observeAll reports whether the reporter has something to do. A panic in it, which ends a
// call and not the daemon, must not keep the lock.
func (a *authority) observeAll(seen []observation) (wake bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, o := range seen {
		if o.lost {
			a.pending = append(a.pending, a.region.Step(budget.StoreLost{}, now)...)
			a.stand()
			wake = true
		}
		if o.usage.Admitted {
			a.unreported.admit(o.key, o.usage)
		}
		wake = a.region.Observe(o.key, o.usage, now) || wake
	}
	return wake
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
