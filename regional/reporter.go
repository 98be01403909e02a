package regional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/hashslot"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// tickEvery is the pace of the protocol: the leader ticks as often.
const tickEvery = 20 * time.Millisecond

// reporter does what the machine asks for: it says Hello, reports, and applies
// shares. The machine allows one call and one application at a time, so nothing
// here queues.
type reporter struct {
	region  string
	address string
	version string
	// incarnation is the machine's.
	incarnation uint64
	auth        *authority
	guard       *guard
	policies    *policies
	// changedAt is the change of limits that was last looked at.
	changedAt budget.Instant
	emergency *emergency
	others    *others
	keeper    *keeper
	planner   *planner
	peers     *coordinators
	metrics   *metrics
	log       *slog.Logger
	bugs      *panics

	// unreached are the hash slots that the store cannot reach at present; nil: it is one
	// server. told is what the machine was last told of them.
	unreached func() *hashslot.Set
	told      *hashslot.Set
	leaveFor  time.Duration // how long the word that this daemon stops may take
	// live is called at the first lease.
	live func()
	// wrongCluster is told of a cluster other than the one the state file knows,
	// before any session was open.
	wrongCluster func(error)
	calls        sync.WaitGroup
	// saying is held through a Hello, and guards opened.
	saying sync.Mutex
	opened bool // a Hello was answered
	// second: a coordinator said last that another daemon of the region is heard.
	second atomic.Bool
	// storeless: the store has not answered since the start. heardWhose: a coordinator has
	// said since whether another daemon of the region is heard.
	storeless   atomic.Bool
	heardWhose  atomic.Bool
	introducing atomic.Bool
	introduced  time.Time // the last time it was due; of run
	// reference is the clock of the leader that answered last, and wall this machine's wall
	// clock; nil: it is not looked at.
	reference boottime.Reference
	wall      *boottime.Wall
	phase     budget.Phase
	phaseTold bool
	session   sessionWatch
	lastPart  time.Duration // what the latest part of a directive took to apply
}

// run serves the machine until ctx ends.
func (r *reporter) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	defer r.calls.Wait()
	for {
		r.tellReach()
		r.watchWall()
		r.auth.tick()
		r.planner.recent.age()
		if at := r.policies.look(r.auth.clock); at != r.changedAt {
			r.changedAt = at
			r.emergency.revise()
		}
		for _, effect := range r.auth.effects() {
			r.do(ctx, effect)
		}
		r.introduceIfDue(ctx)
		r.watchPhase()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.auth.wake:
		}
	}
}

// leaveFor is how long the word that this daemon stops may take.
const leaveFor = 500 * time.Millisecond

// leave tells the coordinators that this daemon is done, so that the next one of the region
// need not wait until it was silent for long enough; as it does where nobody hears this. It is
// for after run.
func (r *reporter) leave(session budget.SessionID) {
	if session == (budget.SessionID{}) && !r.opened {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.leaveFor)
	defer cancel()
	r.peers.leave(ctx, &aliquotv1.ReportRequest{Region: r.region, Epoch: session.Epoch, Session: session.Number, Leaving: true,
		Daemon: uint64(r.others.standing(false).Daemon)})
}

// tellReach tells the machine which part of the store's keys cannot be reached, when that
// has changed.
func (r *reporter) tellReach() {
	if r.unreached == nil {
		return
	}
	now := r.unreached()
	if now.Same(r.told) {
		return
	}
	r.told = now
	r.auth.post(budget.StoreReach{Unreached: now})
}

func (r *reporter) do(ctx context.Context, effect budget.RegionEffect) {
	switch e := effect.(type) {
	case budget.SendHello:
		r.background("Hello", func() { r.helloed(r.hello(ctx, e.Hello)) })
	case budget.SendReport:
		r.background("Report", func() { r.auth.post(r.report(ctx, e.Report)) })
	case budget.ApplyShares:
		// With or without e.Heard the store is told that the region is heard: that
		// costs nothing where there are changes.
		r.background("a change of shares", func() { r.auth.post(budget.SharesApplied{Results: r.applyPart(ctx, e)}) })
	default:
		panic(fmt.Sprintf("regional: unknown effect %T", effect))
	}
}

// background makes a call that run does not wait for. One that panics is told of and has no outcome.
func (r *reporter) background(what string, call func()) {
	r.calls.Go(func() { r.bugs.guard(what, call) })
}

// watchPhase tells the world when the phase changes.
func (r *reporter) watchPhase() {
	info := r.auth.info()
	r.watchSession(info)
	if r.phaseTold && info.Phase == r.phase {
		return
	}
	if r.phaseTold || info.Phase == budget.Live {
		r.log.Info("phase changed", "phase", info.Phase.String(), "lease_remaining", info.LeaseRemaining,
			"hot_keys", info.HotKeys, "epoch", info.Epoch)
	}
	r.phase, r.phaseTold = info.Phase, true
	r.metrics.setDegraded(degradedLease, info.Phase != budget.Live)
	if info.Phase == budget.Live {
		r.live()
	}
}

// outOfDate tells the answer of a leader that was deposed and does not know it yet.
// With "busy" comes no epoch.
func (r *reporter) outOfDate(out *aliquotv1.HelloResponse) bool {
	known := r.policies.load().cluster
	return known.ClusterID == out.GetConfig().GetClusterId() &&
		(out.GetConfig().GetConfigVersion() < known.Version || !out.GetBusy() && out.GetEpoch() < known.LeaderEpoch)
}

func (r *reporter) takeRules(in *aliquotv1.Rules) {
	if in == nil {
		return
	}
	// A refusal is logged and counted by policies; the session goes on.
	text := ruleText{Version: in.GetVersion(), YAML: in.GetYaml(), Numbers: in.GetNumbers(), Entries: rules.EntriesOf(in.GetEntries())}
	if r.policies.setRules(text) == nil {
		r.emergency.revise()
		r.auth.post(budget.RulesReplaced{})
	}
}

func (r *reporter) report(ctx context.Context, rep budget.Report) budget.RegionEvent {
	rep.RulesVersion = r.policies.versionSeen()
	rep.Standing = r.others.inSession(r.noStore())
	in := reportRequest(r.region, rep)
	if p := r.policies.load(); p.counts != nil {
		in.DecidedRulesVersion, in.Allowed, in.Denied = p.text.Version, p.counts.allowed.Load(), p.counts.denied.Load()
	}
	in.Plan = r.planner.pending()
	sent := r.auth.now()
	out, err := r.peers.report(ctx, in)
	if err != nil {
		return budget.CallFailed{}
	}
	r.compare(out.GetEpoch(), out.GetLeaderClockMicros(), sent)
	r.auth.answered(r.auth.now().Sub(sent), !out.GetRenew() && len(out.GetActions()) == 0)
	r.planner.told(in.Plan)
	if task := out.GetPlan(); r.planner.take(task) {
		r.background("a plan", func() { r.planner.run(ctx, task) })
	}
	r.takeRules(out.GetRules())
	d, err := directiveIn(rep.Region, out)
	if err != nil {
		r.log.Error("a directive was refused", "error", err)
		return budget.CallFailed{}
	}
	r.others.told(d.Epoch, d.Others)
	r.emergency.inSession(sent)
	return budget.DirectiveReceived{Directive: d}
}

// restAtMost bounds how long the store is left to checks between two parts of a directive. A part
// keeps a store for some 3 ms; one that took longer waited for a processor, while the store was free.
const restAtMost = 5 * time.Millisecond

// applyPart makes the changes of one part, after as much time for checks as the part before
// took. The machine has one part under way at a time.
func (r *reporter) applyPart(ctx context.Context, part budget.ApplyShares) []budget.ShareResult {
	if part.Follows {
		pause(ctx, min(r.lastPart, restAtMost))
	}
	began := r.auth.now()
	results := r.apply(ctx, part.Changes)
	r.lastPart = r.auth.now().Sub(began)
	return results
}

// apply makes share changes in the store.
func (r *reporter) apply(ctx context.Context, changes []budget.ShareChange) []budget.ShareResult {
	results := make([]budget.ShareResult, 0, len(changes))
	carried := &group{} // as asks, for the debts the changes carry
	var usable []budget.ShareChange
	p := r.policies.load()
	for _, c := range changes {
		known, l, ok := p.limitOf(c.Key.Rule, c.Limit)
		if !ok {
			results = append(results, unknownLimit(c))
			continue
		}
		usable = append(usable, c)
		carried.asks = append(carried.asks, ask{
			limit: l, enforcement: known.enforcement, key: c.Key, right: c.Before, changed: p.changedLimit(c.Key.Rule, l, r.auth.now()),
		})
	}
	if len(usable) == 0 {
		r.tellHeard(ctx)
		return results
	}
	return append(results, r.applyUsable(ctx, usable, carried)...)
}

// unknownLimit is the result of a change of a key of a rule that is gone, or has not come
// yet, and of which the leader does not tell the limit either. The store does not hear of
// it. A key that returns to cold needs nothing there: its share was the floor before.
func unknownLimit(c budget.ShareChange) budget.ShareResult {
	return budget.ShareResult{Key: c.Key, Unenforced: !c.Cold}
}

func (r *reporter) applyUsable(ctx context.Context, changes []budget.ShareChange, carried *group) []budget.ShareResult {
	r.learnClock(ctx)
	end := r.auth.now().Add(applyDeadline)
	head := r.auth.headerFor(carried.asks)
	r.emergency.applying(carried, head.epoch)
	shares := make([]limit.Bucket, len(changes))
	call := make([]lua.Change, len(changes))
	for i, c := range changes {
		a := &carried.asks[i]
		chunk, made := r.auth.local.ended(a, r.auth.now())
		defer made()
		call[i].Key = lua.Key(a.limit.Algorithm, c.Key.Rule, c.Key.Hash)
		call[i].View = head.view(a)
		call[i].View.Chunk = chunk
		shares[i] = rights.Bucket(a.limit, c.Share)
		call[i].Gen, call[i].Share = c.Gen.Pack(), shares[i]
		call[i].Grant, call[i].Cold, call[i].From = limit.Tokens(c.Grant), c.Cold, c.From
	}
	applied, storeNow, err := r.applyInTime(ctx, end, head.epoch, call)
	r.emergency.applied(carried, shares, applied, storeNow)
	r.others.marked(err == nil)
	results := make([]budget.ShareResult, len(changes))
	if err != nil {
		r.applyFailed(ctx, err)
		for i, c := range changes {
			results[i] = budget.ShareResult{Key: c.Key, Failed: true}
		}
		return results
	}
	for i, a := range applied {
		results[i] = budget.ShareResult{
			Key: changes[i].Key, Released: int64(a.Released), Tokens: int64(a.Tokens),
			// Stale: the record has seen a later share than this leader's, so
			// the store enforces that one.
			Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label,
		}
	}
	return results
}

// learnClock asks a store for its time whose contents were learnt a moment ago, and that no
// check has asked since: what a session begins with could not be applied, and would end it.
func (r *reporter) learnClock(ctx context.Context) {
	if r.auth.clock.Until(r.auth.now()) == 0 {
		r.tellHeard(ctx)
	}
}

// applyInTime applies changes before an instant or not at all. When the store has
// not answered, the changes may still be on their way to it; the leader must not
// hear that they failed while they could take effect, so this waits until they no
// longer can.
func (r *reporter) applyInTime(ctx context.Context, end budget.Instant, epoch string, call []lua.Change) ([]limit.Applied, int64, error) {
	deadline := r.auth.clock.Until(end)
	if deadline == 0 {
		pause(ctx, end.Sub(r.auth.now())) // the next Hello would bring the same changes at once
		return nil, 0, errNoStoreClock
	}
	for i := range call {
		call[i].Deadline = deadline
	}
	applied, storeNow, err := r.guard.apply(ctx, applyDeadline, epoch, call)
	if err != nil && reason(err) != "epoch" {
		pause(ctx, end.Sub(r.auth.now())+time.Millisecond)
	}
	return applied, storeNow, err
}

// errNoStoreClock: the store's clock has not been read since it was reached.
var errNoStoreClock = errors.New("the store's clock is not known yet")

// tellHeard lets the store know that a daemon of this region is heard, so that
// another one that is cut off does not take the floor back: it may be lent. Reports tell of
// a store that does not take this, and the leader counts the region as silent if another daemon
// of it is known.
func (r *reporter) tellHeard(ctx context.Context) {
	_, _, err := r.guard.apply(ctx, heardDeadline, r.auth.currentEpoch(), nil)
	r.others.marked(err == nil)
	if err != nil && reason(err) == "epoch" {
		_ = r.guard.learn(ctx) // asked again by the next check and by the probe
	}
}

// applyFailed finds out whether the store has other contents now.
func (r *reporter) applyFailed(ctx context.Context, err error) {
	r.log.Warn("a directive could not be applied in the store; the session ends", "error", err)
	if reason(err) == "epoch" {
		_ = r.guard.learn(ctx) // asked again by the next check and by the probe
	}
}
