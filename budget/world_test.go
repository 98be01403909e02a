package budget

import (
	"slices"
	"testing"
	"time"
)

// world couples one leader with its regions without a network: messages arrive at once, commits and
// proofs succeed unless the test says otherwise, and the store does what it is told. Time passes in
// ticks of 20 ms.
type world struct {
	t       *testing.T
	now     Instant
	ledger  *Ledger
	leader  *Leader // nil: there is no leader
	steps   FloorSteps
	regions []*Region
	cut     []bool // region cannot reach the leader
	// offered per tick and region of the one key under test, whole requests; a
	// region admits what its share of the rate allows.
	key     KeyID
	limit   KeyLimit
	load    []int64
	every   int64 // ticks between loads; 0 and 1: each tick. Regions take turns.
	ticks   int64
	got     int64   // requests admitted
	bank    []int64 // micro-tokens, a crude bucket
	renewed []int
	sums    []Share // every ledger state seen
	// what lenders gave up and growing regions got, micro-tokens
	released, granted int64
	rules             RulesState       // those in force
	standings         map[int]Standing // what the daemons say of themselves
	// left reports whether a region's reports leave out the key; nil: none does.
	left func(region int) bool
	// far is the time of a message of each region one way. quorum is the time of a commit or a
	// proof, and commits is the additional time of a commit; nil and 0: no time. mail has what is
	// in flight, ordered by time.
	far             []time.Duration
	quorum, commits time.Duration
	mail            []letter
	// rights is not nil for a counting limit: a log whose window is the Tail.
	rights *rights
	// records is not nil if it makes the changes, of any key, instead of the crude bucket.
	records func(i int, c ShareChange) ShareResult
	// hold reports whether to keep what a region applies from its store; nil: no.
	hold func(i int, e ApplyShares) bool
}

// letter is something that happens later.
type letter struct {
	at   Instant
	open func()
}

// after calls open once d has passed, in order, or at once if d is 0.
func (w *world) after(d time.Duration, open func()) {
	if d == 0 {
		open()
		return
	}
	l := letter{w.now.Add(d), open}
	i := len(w.mail)
	for i > 0 && w.mail[i-1].at > l.at {
		i--
	}
	w.mail = slices.Insert(w.mail, i, l)
}

// way returns the time of a message of a region.
func (w *world) way(i int) time.Duration {
	if w.far == nil {
		return 0
	}
	return w.far[i]
}

const tick = 20 * time.Millisecond

func newWorld(t *testing.T, n int) *world {
	names := []string{"a", "b", "c", "d", "e"}[:n]
	w := &world{
		t: t, now: Instant(time.Hour), key: KeyID{Rule: 1},
		limit:  KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken},
		ledger: &Ledger{Config: NewConfig(names, 10*time.Second, 20_000)},
		cut:    make([]bool, n), load: make([]int64, n), bank: make([]int64, n), renewed: make([]int, n),
	}
	for i := range names {
		r := NewRegion(i, w.ledger.Config, uint64(i+1), w.now)
		r.Step(StoreEpoch{"epoch-" + names[i]}, w.now)
		w.regions = append(w.regions, r)
		w.bank[i] = Scale(w.limit.Capacity, w.ledger.Config.Regions[i].Floor.Burst)
	}
	return w
}

// fall removes the leader. Calls in flight fail.
func (w *world) fall() {
	w.leader = nil
	for _, r := range w.regions {
		if r.inFlight != noCall {
			r.Step(CallFailed{}, w.now)
		}
	}
}

func (w *world) elect() {
	w.fall()
	w.ledger.MintEpoch()
	w.leader = NewLeader(w.ledger.Clone(), w.now)
	w.steps = NewFloorSteps(&w.ledger.Config, w.now)
	w.steps.SetRules(forever, w.limit.Tail)
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now < end; w.now = w.now.Add(tick) {
		for len(w.mail) > 0 && w.mail[0].at <= w.now {
			due := w.mail[0]
			w.mail = w.mail[1:]
			due.open()
		}
		w.spend()
		if w.leader != nil {
			w.lead(w.leader.Step(Tick{}, w.now))
			w.advance()
		}
		for i, r := range w.regions {
			w.act(i, r.Step(RegionTick{}, w.now))
		}
	}
}

// change applies an operator's change of a region. A new leader starts.
func (w *world) change(change func(*Ledger) error) {
	w.t.Helper()
	if err := change(w.ledger); err != nil {
		w.t.Fatal(err)
	}
	w.checkFloors()
	w.elect()
}

// join starts the daemon of a region that was added.
func (w *world) join(i int) {
	r := NewRegion(i, Config{}, uint64(100+i), w.now)
	r.Step(StoreEpoch{"later"}, w.now)
	for len(w.regions) <= i {
		w.regions = append(w.regions, nil)
		w.cut, w.load, w.bank, w.renewed = append(w.cut, false), append(w.load, 0), append(w.bank, 0), append(w.renewed, 0)
	}
	w.regions[i] = r
}

// advance takes the next step of a change of floors or of timing, when it is due. Nothing here
// settles, because buckets do not remember floors.
func (w *world) advance() {
	p, due := w.steps.Due(w.leader, w.now)
	if !due {
		return
	}
	w.change(func(l *Ledger) error { return l.AdvanceFloors(l.Config.Version, p) })
}

// checkWeighed checks that the leader knows of each key whether its sent shares could sum above the limit, or that the next
// report of the key finds it out.
func (w *world) checkWeighed() {
	w.t.Helper()
	for _, key := range w.leader.order {
		stale := key.unweighed || key.tailed != (w.leader.tailOf(key) > 0)
		if over := w.leader.overdrawn(key); !stale && over != key.over {
			w.t.Fatalf("key %v counts as overdrawn: %v; it is: %v", key.id, key.over, over)
		}
	}
}

// checkFloors checks that what regions could be enforcing of a cold key sums to at most the whole.
func (w *world) checkFloors() {
	w.t.Helper()
	var sum Share
	for i := range w.ledger.Config.Regions {
		floor := w.ledger.Config.Regions[i].Floor
		if i < len(w.regions) && !w.ledger.Config.Regions[i].Fenced {
			enforced := w.regions[i].Right(KeyID{Rule: 9}, w.limit, w.now).Floor
			if !enforced.Within(floor) {
				w.t.Fatalf("region %d enforces a floor of %v, above its bound of %v", i, enforced, floor)
			}
		}
		sum = sum.Add(floor)
	}
	if !sum.Within(Share{Unit, Unit}) {
		w.t.Fatalf("floors sum to %v", sum)
	}
}

func (w *world) steady() bool { return w.ledger.Config.Steady() }

func (w *world) runUntil(what string, within time.Duration, ok func() bool) {
	w.t.Helper()
	for end := w.now.Add(within); !ok(); {
		if w.now >= end {
			w.t.Fatalf("%s: not within %v", what, within)
		}
		w.run(tick)
	}
}

func (w *world) spend() {
	w.ticks++
	for i, r := range w.regions {
		load := w.load[i]
		if w.every > 1 && (w.ticks+int64(i)*w.every/int64(len(w.regions)))%w.every != 0 {
			load = 0
		}
		right := r.Right(w.key, w.limit, w.now)
		s := right.Effective()
		if w.rights != nil {
			w.useRights(i, load)
			continue
		}
		w.bank[i] = min(w.bank[i]+Scale(w.limit.Rate, s.Rate)/50, Scale(w.limit.Capacity, s.Burst))
		for range load {
			u := Usage{Rules: r.rules, Limit: w.limit, Cost: microToken, FloorCap: Scale(w.limit.Capacity, right.Floor.Burst), ColdCap: Scale(w.limit.Capacity, right.Floor.Burst)}
			if w.bank[i] >= microToken {
				w.bank[i] -= microToken
				w.got++
				u.Admitted = true
			}
			u.Tokens = w.bank[i]
			r.Observe(w.key, u, w.now)
		}
	}
}

func (w *world) act(i int, effects []RegionEffect) {
	for _, e := range effects {
		r := w.regions[i]
		switch e := e.(type) {
		case SendHello:
			if w.leader == nil || w.cut[i] {
				w.act(i, r.Step(CallFailed{}, w.now))
				continue
			}
			w.after(w.way(i), func() { w.lead(w.leader.Step(HelloReceived{w.hello(e.Hello)}, w.now)) })
		case SendReport:
			if w.leader == nil || w.cut[i] {
				w.act(i, r.Step(CallFailed{}, w.now))
				continue
			}
			w.after(w.way(i), func() { w.lead(w.leader.Step(ReportReceived{w.report(e.Report)}, w.now)) })
		case ApplyShares:
			if w.hold != nil && w.hold(i, e) {
				continue
			}
			var done SharesApplied
			for _, c := range e.Changes {
				done.Results = append(done.Results, w.store(i, c))
			}
			w.act(i, r.Step(done, w.now))
		}
	}
}

// store applies a share as a store does: a shrink releases its part of the tokens.
func (w *world) store(i int, c ShareChange) ShareResult {
	if w.records != nil {
		return w.records(i, c)
	}
	if w.rights != nil {
		return w.storeRights(i, c)
	}
	return w.storeBucket(i, c)
}

func (w *world) storeBucket(i int, c ShareChange) ShareResult {
	old, share := c.Before.Effective(), c.Share
	keep := w.bank[i]
	if share.Burst < old.Burst {
		keep = mulDiv(keep, int64(share.Burst), int64(old.Burst))
	}
	res := ShareResult{Key: c.Key, Released: w.bank[i] - keep}
	w.bank[i] = min(keep+c.Grant, Scale(w.limit.Capacity, share.Burst))
	w.released += res.Released
	w.granted += c.Grant
	res.Tokens = w.bank[i]
	return res
}

func (w *world) lead(effects []LeaderEffect) {
	w.checkWeighed()
	for _, e := range effects {
		switch e := e.(type) {
		case Commit:
			if err := w.ledger.Apply(e.Plan); err != nil {
				w.t.Fatalf("commit: %v", err)
			}
			w.checkLedger()
			w.after(w.quorum+w.commits, func() { w.lead(w.leader.Step(Committed{}, w.now)) })
		case Verify:
			w.after(w.quorum, func() { w.lead(w.leader.Step(Verified{}, w.now)) })
		case Welcome:
			cfg := w.ledger.Config.clone()
			for i := range cfg.Regions {
				cfg.Regions[i].Floor = cfg.Regions[i].Told
			}
			w.after(w.way(e.OK.Region), func() {
				w.act(e.OK.Region, w.regions[e.OK.Region].Step(HelloAnswered{
					OK: e.OK, Config: cfg, InitialRedisEpoch: cfg.Regions[e.OK.Region].InitialRedisEpoch,
				}, w.now))
			})
		case Answer:
			i := e.Directive.Region
			if e.Directive.Renew {
				w.renewed[i]++
			}
			if w.cut[i] {
				w.act(i, w.regions[i].Step(CallFailed{}, w.now))
				continue
			}
			w.after(w.way(i), func() { w.act(i, w.regions[i].Step(DirectiveReceived{e.Directive}, w.now)) })
		case Refuse:
			w.act(e.Region, w.regions[e.Region].Step(CallFailed{}, w.now))
		}
	}
}

func (w *world) checkLedger() {
	for _, k := range w.ledger.Keys() {
		var sum Share
		for _, s := range w.ledger.Shares(k) {
			sum = sum.Add(s)
		}
		if !sum.Within(Share{Unit, Unit}) {
			w.t.Fatalf("shares sum to %v", sum)
		}
		w.sums = append(w.sums, sum)
	}
}

func (w *world) allLive() bool {
	return !slices.ContainsFunc(w.regions, func(r *Region) bool { return r.Phase(w.now) != Live })
}

// rate returns region i's effective part of the rate, in per mille.
func (w *world) rate(i int) int64 {
	s := w.regions[i].Right(w.key, w.limit, w.now).Effective()
	return int64(s.Rate) * 1000 / Unit
}

// hello and report are as the daemon's shell sends them.
func (w *world) hello(h Hello) Hello {
	h.Standing = w.standings[h.Region]
	return h
}

func (w *world) report(r Report) Report {
	r.Standing = w.standings[r.Region]
	if w.left != nil && w.left(r.Region) {
		r.Keys = nil
	}
	return r
}
