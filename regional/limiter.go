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
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// chunksAtOnce caps the calls to the store that one CheckBatch has under way at a time.
const chunksAtOnce = 4

// request is one validated request.
type request struct {
	attributes rules.Attributes
	namespace  string
	cost       limit.Tokens
	// costs are what the request consumes of other units, in whole tokens.
	costs rules.Costs
	described
}

// described is the part of a request that only a descriptor of Envoy's rate limit protocol has. The
// zero value belongs to a request that is no descriptor.
type described struct {
	descriptor bool
	// without are the ids of rules that do not apply, because another descriptor of the same
	// request replaces them.
	without []string
	// own is the limit that the descriptor brings along, for rules that accept it. A window of 0
	// means none.
	own ownLimit
}

// ownLimit allows that many requests in each window.
type ownLimit struct {
	requests int64
	window   time.Duration
}

// costOf returns how much the request consumes of the unit that a rule counts. It returns false if
// the request has no cost of that unit; then the rule does not apply.
func (r *request) costOf(rule *rules.Rule) (cost limit.Tokens, applies bool) {
	whole, applies := rule.Cost(int64(r.cost/limit.Token), r.costs)
	return limit.Tokens(whole) * limit.Token, applies
}

// ask is one limit of a request on its way to the store.
type ask struct {
	rule   *rules.Rule
	limit  limit.Limit
	window time.Duration // the time that the rule states its limit over
	cost   limit.Tokens  // in the unit that the rule counts
	// enforcement is one of rules.Strict, Elastic and Independent; empty is strict.
	enforcement string
	key         budget.KeyID
	right       budget.Right
	// ticket is the charge of the latest call that the ask was sent with. carried is the part of
	// the key's debt that this call carries. own is the ticket of a call that was given up and may
	// have been for this request.
	ticket  recall.Ticket
	carried recall.Debt
	own     *recall.Ticket
	// memory is the daemon's knowledge of the key's record, in case the store has lost it; nil if
	// it knows nothing.
	memory *limit.Memory
	// forgives is Rule.Forgives of an ask without a rule.
	forgives bool
	// changed is the change of the limit that is remembered, or nil. ruleSince is the time by the
	// store's clock from which on only the present limit applies.
	changed   *rights.Change
	ruleSince int64
	// slot names the slot that the request asks for at a concurrency limit. Each call to the store
	// gets a new name.
	slot uint64
	// lasts is for how long a reservation may hold the slot; 0 means as long as the rule allows.
	lasts time.Duration
	// override is the pattern of the override that set the limit, or empty.
	override string
	// floorCap is the floor's part of the capacity, and coldCap the whole contents of a full bucket
	// while the key is cold. Both are from the latest view.
	floorCap, coldCap limit.Tokens
	borrowing
}

// alone reports whether this region enforces the whole limit by itself. The budget protocol does
// not know such a key.
func (a *ask) alone() bool { return a.enforcement == rules.Independent }

// keyLimit returns the limit in the budget protocol's type.
func (a *ask) keyLimit() budget.KeyLimit {
	l := rights.KeyLimit(a.limit)
	if a.rule != nil {
		l.Placement = placementOf(a.rule)
	}
	return l
}

// placementOf returns a rule's placement in the budget protocol's type.
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

// group is charged all-or-nothing: the limits of one request, or one of its shadow rules.
type group struct {
	cost    limit.Tokens // the request's own; each ask has the cost of its unit
	shadow  bool
	peek    bool // only to read the state: no request asks for tokens
	upkeep  bool // only to return borrowed tokens or to keep them: it costs nothing
	asks    []ask
	allowed bool
	out     []verdict // parallel to asks
	room    []verdict // backing for out, if it is large enough
	self    [1]*group // the group as the only one of its request; nil if it is not needed
	// awaits are closed when tokens have arrived for want of which the store may have denied the
	// group. It is nil if no tokens are under way, or if the group was asked a second time.
	awaits   []<-chan struct{}
	lastTime bool
	// until is how long the caller waits for awaits; zero means not at all.
	until time.Time
	// reserves: the store remembers the group. It borrows nothing, so that a repeated answer equals
	// the first one.
	reserves bool
	// before is the answer to a shadow of a reservation whose other limits were denied and are
	// asked a second time.
	before *chargedBefore
	// undecided are the asks that the store could not be asked about, although it answered about
	// the others. answer is its answer about the others.
	undecided []int
	answer    lua.Result
}

// loneGroup is a group with space for one limit and its result. Most requests have one limit, and
// so they need one allocation. It is not reused, because a call that was given up may still hold
// it.
type loneGroup struct {
	group
	ask     [1]ask
	verdict [1]verdict
}

// newGroup returns a group without limits.
func newGroup(cost limit.Tokens) *group {
	g := &loneGroup{}
	g.cost, g.asks, g.room, g.self[0] = cost, g.ask[:0], g.verdict[:], &g.group
	return &g.group
}

// verdicts returns a slice with one verdict for each limit.
func (g *group) verdicts() []verdict {
	if len(g.asks) <= len(g.room) {
		return g.room[:len(g.asks)]
	}
	return make([]verdict, len(g.asks))
}

// limiter decides validated requests. Safe for concurrent use.
type limiter struct {
	policies  *policy.Policies
	auth      *authority
	emergency *emergency
	metrics   *telemetry.Metrics
	log       *slog.Logger
	// ask sends at most groupsPerCall groups to the store. It is asker.ask, or batcher.decide where
	// it is worth it that requests share calls.
	ask func(ctx context.Context, groups []*group) error
	// direct makes calls to the store that are not shared. alone runs such a call with the same
	// patience as shared calls: it is atOnce or batcher.alone.
	direct *asker
	alone  func(ctx context.Context, call func(context.Context) error) error
	// conduct learns of all decisions.
	conduct   *conduct
	scratches scratches
	// intake gives turns to the callers of decide, one turn to a single check. If it is nil, no
	// turn is needed.
	intake *rpc.Gate
	// door is before the connections whose calls intake gives turns to; nil: there is none.
	door *door
	// clock reads the boot clock faster; nil if the daemon uses another clock.
	clock *boottime.Clock
}

// decide answers each request. No answer depends on another one, but requests for the same key are
// decided in order if they share a call to the store. It fails only if ctx ends first; then the
// caller loses what was charged by that time.
func (l *limiter) decide(ctx context.Context, requests []request) ([]decision, error) {
	return l.decideIn(ctx, requests, &scratch{})
}

// decideIn is decide in the caller's memory: the decisions are valid until s is used again.
func (l *limiter) decideIn(ctx context.Context, requests []request, s *scratch) ([]decision, error) {
	now, wall := l.read()
	s.reset(len(requests), now)
	defer s.unclaim(true) // after a panic no check waits for this call; otherwise nothing is claimed any more
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
		// A call may still use the groups of a caller that is gone. Checks that wait for that call
		// go on waiting.
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

// near decides those requests of todo that this daemon can decide from memory, and returns the
// groups that the store has to decide. If patient, requests that wait for another call stay in
// todo.
func (l *limiter) near(requests []request, s *scratch, now budget.Instant, nowMS int64, patient bool) (groups []*group) {
	p := l.policies.At(nowMS)
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

// read returns the time of the boot clock and of the wall clock.
func (l *limiter) read() (budget.Instant, time.Time) {
	if l.clock != nil {
		return l.clock.Read()
	}
	return l.auth.now(), time.Now()
}

// later returns the time of the boot clock, but no earlier than the given instant: readings of the
// fast clock may go back a little.
func (l *limiter) later(than budget.Instant) budget.Instant {
	now, _ := l.read()
	return max(now, than)
}

// spendAll decides groups, groupsPerCall in one call and a few calls at once. Its error is errGone.
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
			gone[i] = background.Catch(func() error { return l.spend(ctx, chunk) })
			<-slots
		})
	}
	calls.Wait()
	for _, err := range gone {
		background.Rethrow(err)
		if err != nil {
			return err
		}
	}
	return nil
}

// spend decides the groups of one call to the store; without the store each rule's fallback
// decides. If the caller is gone neither decides, so that nothing is charged twice for an answer
// that no client reads. Groups that the store may still be deciding are replaced in the slice.
// Their client loses what the store charges for them.
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

// decidedWhileSettling decides a group from memory, if memory has enough tokens, while a call is
// under way that carries the debt of its keys. Another call would carry the debt as well, and the
// store would take it off twice.
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

// fallsBackLocally reports whether memory may decide the group, because that is the fallback of
// each of its limits.
func (g *group) fallsBackLocally() bool {
	for i := range g.asks {
		if on := g.asks[i].rule.OnRedisFailure; on == rules.FailOpen || on == rules.FailClosed {
			return false
		}
	}
	return true
}

// put has the store decide groups, and the rules' fallbacks those that the store does not decide.
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

// settle takes over the store's answer, and adds what the state machine has to observe of it.
func (g *group) settle(r lua.Result, seen []observation) []observation {
	g.allowed = r.Allowed
	g.out = g.verdicts()
	for i := range g.asks {
		a, out := &g.asks[i], r.Limits[i]
		holds := r.Allowed || out.Tokens+out.Lent >= a.cost || g.peek && out.Tokens+a.left >= a.cost
		out.Tokens += a.left
		seen = a.used(out.Tokens, seen)
		if !g.upkeep {
			g.out[i] = a.verdict(g, modes.Store, limit.Decide(a.limit, out, a.cost, holds)).with(out)
		}
		// If another limit denied the request, a limit that would have held did not lack tokens.
		// That is no demand.
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

// passesBy reports whether the key has no record of its own in the store, which was full, and has
// not come often recently. The state found then describes the use of other keys. If each such key
// asked for a share, a flood of keys that come once would fill the table of hot keys in every
// coordinator. A key that comes often becomes hot and so gets a record of its own.
func (a *ask) passesBy(crowded []int, limit int) bool {
	return a.local == nil && slices.Contains(crowded, limit)
}
