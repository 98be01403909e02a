package regional

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

const (
	// groupsPerCall bounds one store call, so that a batch does not hold Redis up
	// for the others: 64 groups take it about a quarter of a millisecond.
	groupsPerCall = 64
	// callsInFlight bounds the store calls of one batch.
	callsInFlight = 4
)

// request is one validated request.
type request struct {
	attributes map[string]string
	namespace  string
	cost       limit.Tokens
}

// ask is one limit of a request on its way to the store.
type ask struct {
	rule  *rules.Rule
	limit limit.Limit
	key   budget.KeyID
	right budget.Right
	debit limit.Tokens
}

// group is what is charged all-or-nothing: the limits of one request, or one of
// its shadow rules.
type group struct {
	cost    limit.Tokens
	shadow  bool
	asks    []ask
	allowed bool
	out     []verdict // parallel to asks
}

// limiter decides validated requests. Safe for concurrent use.
type limiter struct {
	policies  *policies
	auth      *authority
	guard     *guard
	emergency *emergency
	log       *slog.Logger
}

// decide answers each request; none of the answers depends on another, but
// requests for the same key are decided in order where they share a store call.
func (l *limiter) decide(ctx context.Context, requests []request) []decision {
	p := l.policies.load()
	decisions := make([]decision, len(requests))
	var groups []*group
	var matched []rules.Matched
	for i := range requests {
		matched = decisions[i].plan(p, &requests[i], matched)
		groups = append(groups, decisions[i].groups...)
	}
	l.spendAll(ctx, groups)
	return decisions
}

// spendAll decides groups in calls of at most groupsPerCall, a few at a time.
func (l *limiter) spendAll(ctx context.Context, groups []*group) {
	if len(groups) <= groupsPerCall {
		l.spend(ctx, groups)
		return
	}
	slots := make(chan struct{}, callsInFlight)
	var calls sync.WaitGroup
	for len(groups) > 0 {
		n := min(len(groups), groupsPerCall)
		chunk := groups[:n]
		groups = groups[n:]
		slots <- struct{}{}
		calls.Go(func() {
			l.spend(ctx, chunk)
			<-slots
		})
	}
	calls.Wait()
}

// spend decides the groups of one store call. Contents that turn out to be others
// than expected are learnt, and asked once more; without a store each rule has its
// own fallback.
func (l *limiter) spend(ctx context.Context, groups []*group) {
	if len(groups) == 0 {
		return
	}
	err := l.try(ctx, groups)
	if _, other := errors.AsType[*lua.EpochError](err); other {
		if err = l.guard.learn(ctx); err == nil {
			err = l.try(ctx, groups)
		}
	}
	if err == nil {
		return
	}
	if errors.Is(err, lua.ErrInvalid) {
		l.log.Error("the store was asked for something it cannot count with; this is a bug", "error", err)
	}
	l.fallBack(groups)
}

// errNoEpoch: the store has not been reached since the start.
var errNoEpoch = errors.New("regional: the store's contents are not known yet")

func (l *limiter) try(ctx context.Context, groups []*group) error {
	head := l.auth.grant(groups)
	if head.epoch == "" {
		return errNoEpoch
	}
	l.emergency.debits(groups)
	results, err := l.guard.take(ctx, head.epoch, callOf(head, groups))
	l.emergency.settled(groups, err == nil)
	if err != nil {
		return err
	}
	var seen []observation
	for i, g := range groups {
		seen = g.settle(results[i], seen)
	}
	l.auth.observe(seen)
	return nil
}

// callOf words groups for the store.
func callOf(head header, groups []*group) []lua.Group {
	call := make([]lua.Group, len(groups))
	for i, g := range groups {
		views := make([]lua.KeyView, len(g.asks))
		for j := range g.asks {
			a := &g.asks[j]
			v := head.view(a.right, a.limit)
			v.Debit = a.debit
			views[j] = lua.KeyView{Key: lua.Key(a.key.Rule, a.key.Hash), View: v}
		}
		call[i] = lua.Group{Cost: g.cost, Limits: views}
	}
	return call
}

// settle takes the store's answer, and adds what the machine has to know of it.
func (g *group) settle(r lua.Result, seen []observation) []observation {
	g.allowed = r.Allowed
	g.out = make([]verdict, len(g.asks))
	for i := range g.asks {
		a, out := &g.asks[i], r.Limits[i]
		holds := r.Allowed || out.Tokens >= g.cost
		g.out[i] = verdict{
			rule: a.rule, shadow: g.shadow, mode: modeStore,
			decision: limit.Decide(a.limit, out, g.cost, holds),
		}
		// A limit that would have held, in a request that another one denied, was
		// not wanting for tokens: that is no demand.
		if holds && !r.Allowed && !out.Amnesia {
			continue
		}
		u := budget.Usage{
			Limit: keyLimit(a.limit), Admitted: holds, Tokens: int64(out.Tokens),
			FloorCap: budget.Scale(int64(a.limit.Capacity), a.right.Floor.Burst),
		}
		if r.Allowed || !holds {
			u.Cost = int64(g.cost)
		}
		seen = append(seen, observation{key: a.key, usage: u, lost: out.Amnesia})
	}
	return seen
}
