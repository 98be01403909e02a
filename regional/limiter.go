package regional

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/recall"
	"aliquot/internal/rights"
	"aliquot/internal/rpc"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

// chunksAtOnce bounds the part of the store that one CheckBatch has at a time.
const chunksAtOnce = 4

// request is one validated request.
type request struct {
	attributes rules.Attributes
	namespace  string
	cost       limit.Tokens
	// costs is what the request consumes of other units, whole tokens.
	costs rules.Costs
	described
}

// described is what there is to a request that came as a descriptor of Envoy's rate limit protocol; the
// zero value is of one that did not.
type described struct {
	descriptor bool
	// without are the ids of rules that another descriptor of the same request replaces.
	without []string
	// own is the limit that the descriptor brings, for rules that take it; no window: none.
	own ownLimit
}

// ownLimit is so many requests in each window.
type ownLimit struct {
	requests int64
	window   time.Duration
}

// costOf is what the request consumes of what a rule counts; false if it has none of
// it, and the rule does not apply.
func (r *request) costOf(rule *rules.Rule) (cost limit.Tokens, applies bool) {
	whole, applies := rule.Cost(int64(r.cost/limit.Token), r.costs)
	return limit.Tokens(whole) * limit.Token, applies
}

// ask is one limit of a request on its way to the store.
type ask struct {
	rule   *rules.Rule
	limit  limit.Limit
	window time.Duration // that the limit is stated over
	cost   limit.Tokens  // of what the rule counts
	// enforcement is one of rules.Strict, Elastic and Independent; empty is strict.
	enforcement string
	key         budget.KeyID
	right       budget.Right
	// ticket is the charge of the call that the ask was sent with last, and carried what that call has with it of
	// what the key owes. own is the ticket of a call that was given up and may have been for this request.
	ticket  recall.Ticket
	carried recall.Debt
	own     *recall.Ticket
	// memory is what the daemon knows of the key's record, should the store have lost it; nil: nothing.
	memory *limit.Memory
	// changed is what is remembered of a change of the limit, nil if nothing; ruleSince is the
	// store's time from which on only the present limit holds.
	changed   *rights.Change
	ruleSince int64
	// slot names what the request asks for of a limit of concurrency; made anew for each
	// call of the store.
	slot uint64
	// lasts is for how long a reservation may hold the slot; 0: as long as the rule allows.
	lasts time.Duration
	// override is the pattern of the override that set the limit, if one did.
	override string
	// floorCap is the floor's part of the capacity, coldCap all that the bucket holds
	// while the key is cold; as the last view had them.
	floorCap, coldCap limit.Tokens
	borrowing
}

// alone: this region enforces the whole limit by itself; the budget protocol does
// not know of the key.
func (a *ask) alone() bool { return a.enforcement == rules.Independent }

// keyLimit is the limit as the budget protocol has it.
func (a *ask) keyLimit() budget.KeyLimit {
	l := rights.KeyLimit(a.limit)
	if a.rule != nil {
		l.Placement = placementOf(a.rule)
	}
	return l
}

// placementOf is a rule's placement in the machine's words.
func placementOf(r *rules.Rule) budget.Placement {
	switch r.Placement {
	case rules.Split:
		return budget.PlacementSplit
	case rules.Home:
		return budget.PlacementHome
	default:
		return budget.PlacementAuto
	}
}

// group is what is charged all-or-nothing: the limits of one request, or one of
// its shadow rules.
type group struct {
	cost    limit.Tokens // the request's own; each ask has the cost of its unit
	shadow  bool
	peek    bool // only to be looked at: nobody asks for anything
	upkeep  bool // only to bring back what was borrowed, or to keep it: it costs nothing
	asks    []ask
	allowed bool
	out     []verdict // parallel to asks
	room    []verdict // for out, if it is large enough
	self    [1]*group // the group as the only one of its request; nil if nobody needs that
	// awaits is what may bring the tokens here for want of which the store has denied the
	// group: nil if nothing does, or it was asked a second time.
	awaits   []<-chan struct{}
	lastTime bool
	// until is how long its caller waits for that; zero: not at all.
	until time.Time
	// reserves: it is remembered, and borrows nothing, so that a repeated answer is as the
	// first one was.
	reserves bool
	// before is what became of a shadow of a reservation whose other limits were denied, and
	// are asked once more.
	before *chargedBefore
	// undecided are the asks that the store could not be asked about, while it answered
	// of the others; answer is what it said.
	undecided []int
	answer    lua.Result
}

// loneGroup is a group with room for one limit and all that comes of it: most requests have
// one, and with this they are one allocation. It is not used again, for a call that was
// given up may still hold it.
type loneGroup struct {
	group
	ask     [1]ask
	verdict [1]verdict
}

// newGroup makes a group without limits.
func newGroup(cost limit.Tokens) *group {
	g := &loneGroup{}
	g.cost, g.asks, g.room, g.self[0] = cost, g.ask[:0], g.verdict[:], &g.group
	return &g.group
}

// verdicts makes room for those of all limits.
func (g *group) verdicts() []verdict {
	if len(g.asks) <= len(g.room) {
		return g.room[:len(g.asks)]
	}
	return make([]verdict, len(g.asks))
}

// limiter decides validated requests. Safe for concurrent use.
type limiter struct {
	policies  *policies
	auth      *authority
	emergency *emergency
	metrics   *metrics
	log       *slog.Logger
	// ask puts at most groupsPerCall groups to the store: asker.ask, or
	// batcher.decide where calls are worth sharing.
	ask func(ctx context.Context, groups []*group) error
	// direct is the way to the store of calls that are not shared, and alone makes them as
	// patiently as those that are: atOnce, or batcher.alone.
	direct *asker
	alone  func(ctx context.Context, call func(context.Context) error) error
	// conduct watches what is decided.
	conduct   *conduct
	scratches scratches
	// intake gives turns to those that call decide, one to a single check; nil: they need none.
	intake *rpc.Gate
	// clock is a faster reading of the machine's clock; nil if that is not the one to go by.
	clock *boottime.Clock
}

// decide answers each request; none of the answers depends on another, but
// requests for the same key are decided in order where they share a store call. It
// fails only when ctx ends first; what was charged by then is lost to the caller.
func (l *limiter) decide(ctx context.Context, requests []request) ([]decision, error) {
	return l.decideIn(ctx, requests, &scratch{})
}

// decideIn is decide in memory of the caller's: the decisions hold until s is used again.
func (l *limiter) decideIn(ctx context.Context, requests []request, s *scratch) ([]decision, error) {
	now, wall := l.read()
	s.reset(len(requests), now)
	defer s.unclaim(true) // a call that panicked has nobody wait for it; else nothing is claimed any more
	for round := 0; len(s.todo) > 0; round++ {
		if round > 0 {
			if err := s.waitParked(ctx); err != nil {
				return nil, err
			}
			now, _ = l.read()
		}
		patient := !s.crowded && (round == 0 || round < parkRounds && time.Now().Before(s.until))
		groups := l.near(requests, s, now, wall.UnixMilli(), patient)
		if round == 0 && len(groups)+len(s.todo) > 0 {
			s.until = time.Now().Add(callerPatience)
		}
		for _, g := range groups {
			g.until = s.until
		}
		var err error
		if s.crowded {
			l.fallBack(groups)
		} else {
			err = l.spendAll(ctx, groups)
		}
		// The groups of a caller that is gone are still the call's; whoever waits for that
		// goes on waiting.
		s.unclaim(err == nil && slices.ContainsFunc(groups, (*group).unanswered))
		if err != nil {
			return nil, err
		}
		for _, i := range s.asks {
			groups = groups[copy(s.decisions[i].groups, groups):]
		}
	}
	if len(requests) == 1 && !s.crowded {
		d := &s.decisions[0]
		if err := l.borrow(ctx, d.groups, func(i int) error { return l.spend(ctx, d.groups[i:i+1]) }); err != nil {
			return nil, err
		}
	}
	l.conduct.decided(s.decisions, now)
	if !s.crowded {
		l.overrun(ctx, requests, s.decisions)
	}
	return s.decisions, nil
}

// near decides of what is to do what can be decided here, and returns what the store has
// to. What is parked stays to do, if there is patience for that.
func (l *limiter) near(requests []request, s *scratch, now budget.Instant, nowMS int64, patient bool) (groups []*group) {
	p := l.policies.at(nowMS)
	parked := s.todo[:0]
	s.asks = s.asks[:0]
	for _, i := range s.todo {
		d, r := &s.decisions[i], &requests[i]
		s.matched = d.match(p, r, nowMS, s.matched)
		if d.mode != "" {
			continue
		}
		switch d.local(l, p, r, now, s, patient) {
		case wayDecided:
			continue
		case wayParked:
			parked = append(parked, i)
			continue
		}
		d.limits(p, r, s.matched, l.auth.local, now, &s.name)
		l.conduct.hold(d, now)
		s.claim(d.groups, now)
		groups, s.asks = append(groups, d.groups...), append(s.asks, i)
	}
	s.todo = parked
	return groups
}

// read is the time of the boot clock and of the wall clock.
func (l *limiter) read() (budget.Instant, time.Time) {
	if l.clock != nil {
		return l.clock.Read()
	}
	return l.auth.now(), time.Now()
}

// later is the time of the boot clock, and not before an instant: readings of the fast
// clock may step back a little.
func (l *limiter) later(than budget.Instant) budget.Instant {
	now, _ := l.read()
	return max(now, than)
}

// spendAll decides groups, groupsPerCall at a time and a few of those at once. Its
// error is errGone.
func (l *limiter) spendAll(ctx context.Context, groups []*group) error {
	if len(groups) <= groupsPerCall {
		return l.spend(ctx, groups)
	}
	chunks := slices.Collect(slices.Chunk(groups, groupsPerCall))
	gone := make([]error, len(chunks))
	slots := make(chan struct{}, chunksAtOnce)
	var calls sync.WaitGroup
	for i, chunk := range chunks {
		slots <- struct{}{}
		calls.Go(func() {
			gone[i] = caughtIn(func() error { return l.spend(ctx, chunk) })
			<-slots
		})
	}
	calls.Wait()
	for _, err := range gone {
		panicAgain(err)
		if err != nil {
			return err
		}
	}
	return nil
}

// spend decides the groups of one store call; without the store each rule has its
// own fallback. A caller that went away gets neither, so that nothing is charged
// twice for an answer that nobody hears. Groups that the store may be deciding yet are
// replaced in the slice, and what it charges for them is lost to the client.
func (l *limiter) spend(ctx context.Context, groups []*group) error {
	if l.emergency.owing.Load() == 0 {
		return l.put(ctx, groups)
	}
	rest, places := make([]*group, 0, len(groups)), make([]int, 0, len(groups))
	for i, g := range groups {
		if !l.decidedWhileSettling(g) {
			rest, places = append(rest, g), append(places, i)
		}
	}
	err := l.put(ctx, rest)
	for j, i := range places {
		groups[i] = rest[j]
	}
	return err
}

// decidedWhileSettling decides a group from memory, if memory holds it, for whose keys a call is under way that
// carries what they owe: another call would carry that as well, and the store take it off twice.
func (l *limiter) decidedWhileSettling(g *group) bool {
	if g.reserves || !g.fallsBackLocally() || !l.emergency.settling(g) {
		return false
	}
	l.auth.floors.RLock()
	head := l.auth.grant([]*group{g})
	held := l.emergency.holds(g, head.epoch)
	l.auth.floors.RUnlock()
	if held {
		l.fallBack([]*group{g})
	}
	return held
}

// fallsBackLocally reports whether memory may decide the group: each of its limits falls back to that.
func (g *group) fallsBackLocally() bool {
	for i := range g.asks {
		if on := g.asks[i].rule.OnRedisFailure; on == rules.FailOpen || on == rules.FailClosed {
			return false
		}
	}
	return true
}

// put has the store decide groups, and their rules' fallbacks where it does not.
func (l *limiter) put(ctx context.Context, groups []*group) error {
	if len(groups) == 0 {
		return nil
	}
	err := l.ask(ctx, groups)
	if errors.Is(err, errGone) {
		return err
	}
	if err == nil {
		for _, g := range groups {
			if g.undecided != nil {
				if err := l.decideInParts(ctx, g); err != nil {
					return err
				}
			}
		}
		return l.askAgain(ctx, groups)
	}
	if errors.Is(err, lua.ErrInvalid) {
		l.log.Error("the store was asked for something it cannot count with; this is a bug", "error", err)
	}
	if unsettled(err) {
		for i := range groups {
			groups[i] = groups[i].anew()
		}
	}
	l.fallBack(groups)
	return nil
}

// settle takes the store's answer, and adds what the machine has to know of it.
func (g *group) settle(r lua.Result, seen []observation) []observation {
	g.allowed = r.Allowed
	g.out = g.verdicts()
	for i := range g.asks {
		a, out := &g.asks[i], r.Limits[i]
		holds := r.Allowed || out.Tokens+out.Lent >= a.cost || g.peek && out.Tokens+a.left >= a.cost
		out.Tokens += a.left
		seen = a.used(out.Tokens, seen)
		if !g.upkeep {
			g.out[i] = a.verdict(g, modeStore, limit.Decide(a.limit, out, a.cost, holds)).with(out)
		}
		// A limit that would have held, in a request that another one denied, was
		// not wanting for tokens: that is no demand.
		if a.alone() || (holds && !r.Allowed || g.peek || g.upkeep || a.passesBy(r.Crowded, i)) && !out.Amnesia {
			continue
		}
		u := budget.Usage{Limit: a.keyLimit(), Admitted: holds, Tokens: int64(max(0, out.Tokens))}
		u.FloorCap, u.ColdCap = int64(a.floorCap), int64(a.coldCap)
		if r.Allowed || !holds {
			u.Cost = int64(a.cost)
		}
		seen = append(seen, observation{key: a.key, usage: u, lost: out.Amnesia})
	}
	return seen
}

// passesBy tells that a key has no record of its own in the store, for want of room, and has
// not come often of late: what it found says what others use. Were each such key to ask for
// a share, a flood of keys that come once would fill the table of hot keys in every
// coordinator; one that comes often gets a record of its own by becoming hot.
func (a *ask) passesBy(crowded []int, limit int) bool {
	return a.local == nil && slices.Contains(crowded, limit)
}
