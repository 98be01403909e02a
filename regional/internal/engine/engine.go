// Package engine decides requests: from memory, by the store, or without the store. It reserves and settles.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/lua"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/keywatch"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

// Engine decides validated requests. Safe for concurrent use.
type Engine struct {
	Policies  *policy.Policies
	Auth      *authority.Authority
	emergency *emergency.Limit
	metrics   *telemetry.Metrics
	log       *slog.Logger
	// Send sends at most storeguard.GroupsPerCall groups to the store. It is storeClient.decide, or
	// Batcher.Decide where requests share calls.
	Send func(ctx context.Context, groups []*charge.Transaction) error
	// direct makes calls to the store that are not shared. unbatched runs such a call with the same
	// patience as shared calls: it is callNow or a method of the batcher.
	direct    *storeClient
	unbatched func(ctx context.Context, call func(context.Context) error) error
	// Keys learns of all decisions.
	Keys      *keywatch.Watch
	Scratches charge.Scratches
	// turns has the turns of the callers: one for each single check, Scratch.Turns and Scratch.Part for a call of several. Nil:
	// none is needed.
	turns Turns
	// clock reads the boot clock faster; nil if the daemon uses another clock.
	clock *boottime.Clock
}

// Turns lets a check that waits give its turn to another one, and a call those of the requests that are decided.
type Turns interface {
	// Leave gives n turns back.
	Leave(n int)
	// Retake takes n turns again at once.
	Retake(n int)
	// TakePart waits for n turns for a part of a call: for no more requests than one call of the store takes. Its error is
	// that of ctx. LeavePart gives n of them back.
	TakePart(ctx context.Context, n int) error
	LeavePart(n int)
}

// Config is what an engine needs. Turns and Clock may be nil.
type Config struct {
	Policies  *policy.Policies
	Auth      *authority.Authority
	Guard     *storeguard.Guard
	Emergency *emergency.Limit
	Keys      *keywatch.Watch
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
	Bugs      *background.Panics
	Turns     Turns
	Clock     *boottime.Clock
	// Slots names the slots of concurrency limits.
	Slots *charge.SlotNames
	// Shared: concurrent requests share calls to the store. It is of use for a store that is not
	// memory of this process.
	Shared bool
}

// New returns an engine.
func New(c Config) *Engine {
	direct := &storeClient{auth: c.Auth, guard: c.Guard, emergency: c.Emergency, slots: c.Slots}
	l := &Engine{
		Policies: c.Policies, Auth: c.Auth, emergency: c.Emergency, Keys: c.Keys, metrics: c.Metrics, log: c.Log,
		Send: direct.decide, direct: direct, unbatched: callNow, turns: c.Turns, clock: c.Clock,
	}
	if c.Shared {
		b := &storeguard.Batcher{Send: direct.decide, Refused: c.Guard.GaveUp, Caught: func(cause any) { _ = c.Bugs.Caught("a call of the store", cause) }}
		l.Send, l.unbatched = c.Guard.WhileClosed(b.Decide), b.Unbatched
	}
	return l
}

// NewJanitor returns the janitor of what the engine has borrowed.
func (l *Engine) NewJanitor(bugs *background.Panics) *Janitor {
	return &Janitor{table: l.Auth.Local, auth: l.Auth, bugs: bugs, send: func(ctx context.Context, groups []*charge.Transaction) error {
		defer l.emergency.TurnOver(l.emergency.AwaitTurn(ctx, groups))
		return l.Send(ctx, groups)
	}}
}

// Decide answers each request. No answer depends on another one, but requests for the same key are
// decided in order if they share a call to the store. It fails only if ctx ends first; then the
// caller loses what was charged by that time.
func (l *Engine) Decide(ctx context.Context, requests []charge.Request) ([]charge.Decision, error) {
	return l.DecideIn(ctx, requests, &charge.Scratch{})
}

// DecideIn is Decide in the caller's memory: the decisions are valid until s is used again.
func (l *Engine) DecideIn(ctx context.Context, requests []charge.Request, s *charge.Scratch) ([]charge.Decision, error) {
	now, wall := l.Read()
	s.Reset(len(requests), now)
	defer s.ClearInFlight(true) // after a panic no check waits for this call; otherwise nothing is marked any more
	for round := 0; len(s.Pending) > 0; round++ {
		if round > 0 {
			if err := s.WaitInFlight(ctx); err != nil {
				return nil, err
			}
			now, wall = l.Read()
		}
		patient := !s.Crowded && (round == 0 || round < charge.MaxWaitRounds && time.Now().Before(s.Until))
		groups := l.decideCached(requests, s, now, wall, patient)
		if round == 0 && len(groups)+len(s.Pending) > 0 {
			s.Until = time.Now().Add(storeguard.CallerPatience)
		}
		l.keepTurns(s, len(groups), len(s.Pending))
		for _, g := range groups {
			g.Until = s.Until
		}
		var err error
		if s.Crowded {
			l.FallBack(groups)
		} else {
			err = l.spendAll(ctx, groups, s)
		}
		// A call may still use the groups of a caller that is gone. Checks that wait for that call
		// go on waiting.
		s.ClearInFlight(err == nil && slices.ContainsFunc(groups, (*charge.Transaction).Unanswered))
		if err != nil {
			return nil, err
		}
		for _, i := range s.ForStore {
			groups = groups[copy(s.Decisions[i].Groups, groups):]
		}
	}
	if len(requests) == 1 && !s.Crowded {
		d := &s.Decisions[0]
		if err := l.borrow(ctx, d, &requests[0], func(i int) error { return l.spend(ctx, d.Groups[i:i+1]) }); err != nil {
			return nil, err
		}
	}
	l.Keys.Decided(s.Decisions, now)
	if !s.Crowded {
		l.overrun(ctx, requests, s.Decisions)
	}
	return s.Decisions, nil
}

// decideCached decides those pending requests that memory can decide, and returns the groups that
// the store has to decide. now and wall are when they came, by the two clocks. If patient, requests that
// wait for another call stay pending.
//
// Memory decides all of them as of now. A wait for a lock, or a pause of the process, may be longer than a
// chunk's life. So the clock is read again when they are decided: if a chunk is over of which they have
// spent, the store decides instead. What was spent is lost, as the rest of that chunk is.
func (l *Engine) decideCached(requests []charge.Request, s *charge.Scratch, now budget.Instant, wall time.Time, patient bool) (groups []*charge.Transaction) {
	nowMS := wall.UnixMilli()
	p := l.Policies.At(nowMS)
	waiting := s.Pending[:0]
	s.ForStore, s.Held, s.ChunksEnd = s.ForStore[:0], s.Held[:0], math.MaxInt64
	for _, i := range s.Pending {
		d, r := &s.Decisions[i], &requests[i]
		s.Matched = d.Match(p, r, nowMS, s.Matched)
		if d.Mode != "" {
			continue
		}
		switch routeOf(d, l, p, r, now, s, patient) {
		case routeDecided:
			s.Held = append(s.Held, i)
			continue
		case routeWait:
			waiting = append(waiting, i)
			continue
		}
		groups = l.forStore(groups, s, i, p, r, now)
	}
	s.Pending = waiting
	if s.ChunksEnd != math.MaxInt64 && l.since(now, wall) >= s.ChunksEnd {
		for _, i := range s.Held {
			d, r := &s.Decisions[i], &requests[i]
			*d = charge.Decision{}
			s.Matched = d.Match(p, r, nowMS, s.Matched)
			groups = l.forStore(groups, s, i, p, r, now)
		}
	}
	return groups
}

// forStore appends the groups of a request that the store has to decide.
func (l *Engine) forStore(groups []*charge.Transaction, s *charge.Scratch, i int, p *policy.Policy, r *charge.Request, now budget.Instant) []*charge.Transaction {
	d := &s.Decisions[i]
	d.Limits(p, r, s.Matched, l.Auth.Local, now, s)
	l.Keys.Hold(d, now)
	s.MarkInFlight(d.Groups, now)
	s.ForStore = append(s.ForStore, i)
	return append(groups, d.Groups...)
}

// keepTurns gives back the turns of a call of several requests that are decided by now: some groups go to the store, and
// others wait for the calls of other checks. The call itself keeps one. If the groups go in parts, these have turns of
// their own, and the first part has those that the call took for it.
func (l *Engine) keepTurns(s *charge.Scratch, groups, waiting int) {
	keep := groups + waiting
	if groups > storeguard.GroupsPerCall {
		keep = 0
	} else if spare := s.Part - keep; spare > 0 {
		l.turns.LeavePart(spare)
		s.Part -= spare
	}
	if spare := s.Turns - max(1, keep); spare > 0 {
		l.turns.Leave(spare)
		s.Turns -= spare
	}
}

// Read returns the time of the boot clock and of the wall clock. It takes a tenth of what a system call for the boot clock
// takes; see boottime.Clock.
func (l *Engine) Read() (budget.Instant, time.Time) {
	if l.clock != nil {
		return l.clock.Read()
	}
	return l.Auth.Now(), time.Now()
}

// since returns the time of the boot clock, microseconds after Read has returned now and wall. It reads only Go's
// monotonic clock, which takes half as long and does not see that the machine slept in between.
func (l *Engine) since(now budget.Instant, wall time.Time) budget.Instant {
	if l.clock != nil {
		return now.Add(time.Since(wall))
	}
	return l.Auth.Now()
}

// spendAll decides groups. More than storeguard.GroupsPerCall go in parts: each waits for its turn behind one part of every
// other call that waits, and those that have turns go at once. Its error is charge.ErrGone.
func (l *Engine) spendAll(ctx context.Context, groups []*charge.Transaction, s *charge.Scratch) error {
	if len(groups) <= storeguard.GroupsPerCall {
		return l.spend(ctx, groups)
	}
	parts := slices.Collect(slices.Chunk(groups, storeguard.GroupsPerCall))
	gone := make([]error, len(parts))
	var calls sync.WaitGroup
	for i, part := range parts {
		var taken int
		if taken, gone[i] = l.takePart(ctx, s, len(part)); gone[i] != nil {
			break
		}
		calls.Go(func() {
			gone[i] = background.Catch(func() error { return l.spend(ctx, part) })
			l.leavePart(taken)
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

// takePart takes the turns of a part of n groups: those that the call has, or others. It returns how many. Its error is
// charge.ErrGone.
func (l *Engine) takePart(ctx context.Context, s *charge.Scratch, n int) (taken int, err error) {
	if s.Part > 0 || l.turns == nil {
		taken, s.Part = s.Part, 0
		return taken, nil
	}
	if err := l.turns.TakePart(ctx, n); err != nil {
		return 0, fmt.Errorf("%w: %w", charge.ErrGone, err)
	}
	if err := ctx.Err(); err != nil { // the call's own parts have left their turns when its caller did
		l.turns.LeavePart(n)
		return 0, fmt.Errorf("%w: %w", charge.ErrGone, err)
	}
	return n, nil
}

// leavePart gives back what takePart has taken.
func (l *Engine) leavePart(taken int) {
	if taken > 0 {
		l.turns.LeavePart(taken)
	}
}

// spend decides the groups of one call to the store; without the store each rule's fallback
// decides. If the caller is gone neither decides, so that nothing is charged twice for an answer
// that no client reads. Groups that the store may still be deciding are replaced in the slice.
// Their client loses what the store charges for them.
func (l *Engine) spend(ctx context.Context, groups []*charge.Transaction) error {
	if !l.emergency.Owes() {
		return l.decideByStore(ctx, groups, nil)
	}
	rest, places := make([]*charge.Transaction, 0, len(groups)), make([]int, 0, len(groups))
	turn := &emergency.Turn{}
	defer l.emergency.TurnOver(turn) // also after a panic
	for i, g := range groups {
		if !l.decidedWhileSettling(g, turn) {
			rest, places = append(rest, g), append(places, i)
		}
	}
	err := l.decideByStore(ctx, rest, turn)
	for j, i := range places {
		groups[i] = rest[j]
	}
	return err
}

// decidedWhileSettling decides a group from memory, if memory has enough tokens, while a call is
// under way that carries the debt of its keys, or waits for its turn. Another call would carry the
// debt as well, and the store would take it off twice.
func (l *Engine) decidedWhileSettling(g *charge.Transaction, turn *emergency.Turn) bool {
	if g.Reserves || !g.FallsBackLocally() || !l.emergency.Settling(g, turn) {
		return false
	}
	l.Auth.HoldFloor()
	defer l.Auth.ReleaseFloor()
	one := []*charge.Transaction{g}
	contents := l.Auth.Grant(one).Epoch
	l.nameSlots(one)
	seen := l.fallBackGroup(g, contents, nil)
	if !g.Allowed {
		g.Out = nil // the store may have more
		return false
	}
	l.Auth.Observe(seen)
	return true
}

// decideByStore lets the store decide groups. The rules' fallbacks decide those that the store does
// not decide. It ends the turn that the caller has for the call; nil: none.
func (l *Engine) decideByStore(ctx context.Context, groups []*charge.Transaction, turn *emergency.Turn) error {
	if len(groups) == 0 {
		return nil
	}
	l.nameSlots(groups)
	err := l.Send(ctx, groups)
	l.emergency.TurnOver(turn)
	if errors.Is(err, charge.ErrGone) {
		return err
	}
	if err == nil {
		for _, g := range groups {
			if g.Undecided != nil {
				if err := l.decideInParts(ctx, g); err != nil {
					return err
				}
			}
		}
		return l.retryWaiting(ctx, groups)
	}
	if errors.Is(err, lua.ErrInvalid) {
		l.log.Error("the store was asked for something it cannot count with; this is a bug", "error", err)
	}
	if storeguard.Unsettled(err) {
		for i := range groups {
			groups[i] = groups[i].FreshCopy()
		}
	}
	l.FallBack(groups)
	return nil
}

// retryWaiting waits for the calls that denied groups wait for, and lets the store decide these groups
// a second time. Its error is charge.ErrGone.
func (l *Engine) retryWaiting(ctx context.Context, groups []*charge.Transaction) error {
	var again []*charge.Transaction
	for _, g := range groups {
		if g.InFlight != nil {
			again = append(again, g)
		}
	}
	if again == nil {
		return nil
	}
	before := slices.Clone(again)
	for _, g := range again {
		if err := g.Wait(ctx); err != nil {
			return err
		}
	}
	if err := l.spend(ctx, again); err != nil {
		return err
	}
	for i, g := range before { // a group whose caller gave up was replaced by a copy
		groups[slices.Index(groups, g)] = again[i]
	}
	return nil
}

// route says how a request continues after memory has looked at it.
type route uint8

const (
	routeStore   route = iota // the store has to be asked
	routeWait                 // the request waits for another check's call
	routeDecided              // the request is decided
)

// routeOf decides a request from memory if memory knows enough of each of its limits. Otherwise it
// changes nothing; a patient request then waits for other checks' calls, if there are any. now is
// when the request came.
func routeOf(d *charge.Decision, l *Engine, p *policy.Policy, r *charge.Request, now budget.Instant, s *charge.Scratch, patient bool) route {
	var plan charge.LocalPlan
	t := l.Auth.Local
	if len(s.Matched) > charge.MaxCached || !plan.Find(t, p, r, s) {
		return routeStore
	}
	if !d.Coalesced && l.Keys.HoldLocal(d, &plan, s, now) {
		return routeDecided
	}
	to := chargeCached(&plan, t, s, now, patient)
	switch to {
	case routeDecided:
		d.SetVerdicts(&plan, s, now)
	case routeWait:
		d.Coalesced = true
	}
	return to
}

// chargeCached charges the limits of a request if memory knows enough of each of them. It holds their locks.
func chargeCached(plan *charge.LocalPlan, t *charge.Table, s *charge.Scratch, now budget.Instant, patient bool) route {
	plan.Lock()
	defer plan.Unlock()
	allowed, known := plan.Evaluate(s, now)
	switch {
	case known:
		plan.Charge(t, s, allowed, now)
		plan.Read(s, now)
		return routeDecided
	case patient && plan.JoinInFlight(s, now):
		return routeWait
	default:
		return routeStore
	}
}

// callUnbatched makes a call that no other check shares, and returns its result. The result of a
// call that was given up is dropped.
func callUnbatched[T any](ctx context.Context, l *Engine, call func(context.Context) (T, error)) (T, error) {
	var out, none T
	err := l.unbatched(ctx, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// callNow makes an unbatched call of a store that always answers.
func callNow(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
