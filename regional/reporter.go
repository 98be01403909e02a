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
	"aliquot/internal/entitlement"
	"aliquot/internal/hashslot"
	"aliquot/internal/leasewire"
	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// tickEvery is the interval of the protocol. The leader ticks at the same interval.
const tickEvery = 20 * time.Millisecond

// reporter does what the state machine asks for: it sends Hellos and reports, and applies shares.
// The state machine allows one call and one application at a time, so nothing queues here.
type reporter struct {
	region  string
	address string
	version string
	// incarnation is that of the state machine.
	incarnation uint64
	auth        *authority.Authority
	guard       *storeguard.Guard
	policies    *policy.Policies
	// changedAt is the latest change of limits that run has handled.
	changedAt budget.Instant
	// overridesEnded is how many overrides had ended when the state machine was last told.
	overridesEnded atomic.Uint32
	emergency      *emergency.Limit
	others         *others
	keeper         *keeper
	planner        *sample.Planner
	recent         *sample.Sample
	peers          *coordinators
	metrics        *telemetry.Metrics
	log            *slog.Logger
	bugs           *background.Panics

	// unreached returns the hash slots that the store cannot reach at present; it is nil for a
	// store of one server. told is the set that the state machine was last told.
	unreached func() *hashslot.Set
	told      *hashslot.Set
	leaveFor  time.Duration // how long telling the coordinators that this daemon stops may take
	// live is called at the first lease.
	live func()
	// wrongCluster is called if, before any session was open, a cluster answers that is not the one
	// in the state file.
	wrongCluster func(error)
	calls        sync.WaitGroup
	// saying is held through a Hello, and guards the fields down to second.
	saying sync.Mutex
	opened bool // a Hello was answered
	// sharedWith is another region that uses this region's store, by the latest answer; empty: none. Guarded by saying.
	sharedWith string
	// second: by the latest word of a coordinator, another daemon of the region is heard.
	second atomic.Bool
	// storeless: the store has not answered since the start. heardWhose: since then a coordinator
	// has said whether another daemon of the region is heard.
	storeless   atomic.Bool
	heardWhose  atomic.Bool
	introducing atomic.Bool
	introduced  time.Time // when it was last due; used by run only
	// reference is the clock of the leader that answered last. wall is this host's wall clock; nil
	// if it is not watched.
	reference boottime.Reference
	wall      *boottime.Wall
	phase     budget.Phase
	phaseTold bool
	session   sessionWatch
	lastPart  time.Duration // how long the latest part of a directive took to apply
}

// run serves the state machine until ctx ends.
func (r *reporter) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	defer r.calls.Wait()
	for {
		r.tellReach()
		r.watchWall()
		r.auth.Tick()
		r.recent.Age()
		if at := r.policies.EndOverrides(r.auth.Clock); at != r.changedAt {
			r.changedAt = at
			r.emergency.Revise()
		}
		for _, effect := range r.auth.Effects() {
			r.do(ctx, effect)
		}
		r.introduceIfDue(ctx)
		r.watchPhase()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.auth.Woken():
		}
	}
}

// leaveFor is how long telling the coordinators that this daemon stops may take.
const leaveFor = 500 * time.Millisecond

// leave tells the coordinators that this daemon stops, so that the next daemon of the region need
// not wait until this one was silent for long enough. If no coordinator receives it, the next
// daemon does wait. It must be called after run has returned.
func (r *reporter) leave(session budget.SessionID) {
	if session == (budget.SessionID{}) && !r.opened {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.leaveFor)
	defer cancel()
	r.peers.leave(ctx, &aliquotv1.ReportRequest{Region: r.region, Epoch: session.Epoch, Session: session.Number, Leaving: true,
		Daemon: uint64(r.others.standing(false).Daemon)})
}

// tellReach tells the state machine which of the store's keys cannot be reached, when that has
// changed.
func (r *reporter) tellReach() {
	if r.unreached == nil {
		return
	}
	now := r.unreached()
	if now.Same(r.told) {
		return
	}
	r.told = now
	r.auth.Post(budget.StoreReach{Unreached: now})
}

func (r *reporter) do(ctx context.Context, effect budget.RegionEffect) {
	switch e := effect.(type) {
	case budget.SendHello:
		r.background("Hello", func() { r.helloed(r.hello(ctx, e.Hello)) })
	case budget.SendReport:
		r.background("Report", func() { r.auth.Post(r.report(ctx, e.Report)) })
	case budget.ApplyShares:
		// With or without e.Heard the store is told that the region is heard, because that costs
		// nothing beside changes.
		r.background("a change of shares", func() { r.auth.Post(budget.SharesApplied{Results: r.applyPart(ctx, e)}) })
	default:
		panic(fmt.Sprintf("regional: unknown effect %T", effect))
	}
}

// background makes a call that run does not wait for. A call that panics is logged and has no
// outcome.
func (r *reporter) background(what string, call func()) {
	r.calls.Go(func() { r.bugs.Guard(what, call) })
}

// watchPhase logs and exports a change of the phase.
func (r *reporter) watchPhase() {
	info := r.auth.Info()
	r.watchSession(info)
	if r.phaseTold && info.Phase == r.phase {
		return
	}
	if r.phaseTold || info.Phase == budget.Live {
		r.log.Info("phase changed", "phase", info.Phase.String(), "lease_remaining", info.LeaseRemaining,
			"hot_keys", info.HotKeys, "epoch", info.Epoch)
	}
	r.phase, r.phaseTold = info.Phase, true
	r.metrics.SetDegraded(telemetry.DegradedLease, info.Phase != budget.Live)
	if info.Phase == budget.Live {
		r.live()
	}
}

// outOfDate reports whether the answer is that of a deposed leader that does not know yet that it
// was deposed. An answer with "busy" has no epoch.
func (r *reporter) outOfDate(out *aliquotv1.HelloResponse) bool {
	known := r.policies.Load().Cluster
	return known.ClusterID == out.GetConfig().GetClusterId() &&
		(out.GetConfig().GetConfigVersion() < known.Version || !out.GetBusy() && out.GetEpoch() < known.LeaderEpoch)
}

// takeRules puts the rules of an answer in force. If that or the end of an override has changed
// limits, the state machine learns of it before it gets the answer.
func (r *reporter) takeRules(in *aliquotv1.Rules) {
	replaced := false
	if in != nil {
		// policies logs and counts a refusal. The session goes on.
		text := policy.RuleText{Version: in.GetVersion(), YAML: in.GetYaml(), Numbers: in.GetNumbers(), Entries: rules.EntriesOf(in.GetEntries())}
		before := r.policies.Load()
		if replaced = r.policies.SetRules(text) == nil; replaced {
			r.emergency.Revise()
			if before.Open && !before.Known() {
				r.countEarly()
			}
		}
	}
	ended := r.policies.At(time.Now().UnixMilli()).OverridesEnded
	if r.overridesEnded.Swap(ended) != ended || replaced {
		r.auth.Post(budget.RulesReplaced{})
	}
}

// maxEarly caps the requests of before the rules that are looked at when the rules come.
const maxEarly = 10_000

// countEarly counts what passed before the first rules were known, by those rules. Only a daemon that
// runs with --without-rules allow has let anything pass.
func (r *reporter) countEarly() {
	p := r.policies.Load()
	var early []charge.Transaction
	var at []budget.Instant
	part := r.recent.Take()
	part.Each(func(q *sample.Request) bool {
		var d charge.Decision
		d.Plan(p, &q.Request, time.Now().UnixMilli(), nil)
		for _, g := range d.Groups {
			if !g.Shadow {
				early, at = append(early, *g), append(at, q.At)
			}
		}
		return len(early) < maxEarly
	})
	for i := range early {
		for j := range early[i].Asks {
			a := &early[i].Asks[j]
			r.auth.AdmitEarly(a.Key, a.KeyLimit(), int64(a.Cost), at[i])
		}
	}
}

func (r *reporter) report(ctx context.Context, rep budget.Report) budget.RegionEvent {
	rep.RulesVersion, rep.RulesEnded = r.policies.VersionSeen(), r.overridesEnded.Load()
	rep.Standing = r.others.inSession(r.noStore())
	rep.Contents = r.auth.Contents()
	in := leasewire.ReportRequest(r.region, rep)
	if p := r.policies.Load(); p.Counts != nil {
		in.DecidedRulesVersion, in.Allowed, in.Denied = p.Text.Version, p.Counts.Allowed.Load(), p.Counts.Denied.Load()
	}
	in.Plan, in.Spent = r.planner.Pending(), leasewire.SpentTo(r.auth.ReportUnreported(rep.Keys))
	sent := r.auth.Now()
	out, err := r.peers.report(ctx, in)
	if err != nil {
		return budget.CallFailed{}
	}
	r.compare(out.GetEpoch(), out.GetLeaderClockMicros(), sent)
	r.auth.Answered(r.auth.Now().Sub(sent), !out.GetRenew() && len(out.GetActions()) == 0)
	r.planner.Told(in.Plan)
	if task := out.GetPlan(); r.planner.Take(task) {
		r.background("a plan", func() { r.planner.Run(ctx, task) })
	}
	r.takeRules(out.GetRules())
	d, err := leasewire.DirectiveFrom(rep.Region, out)
	if err != nil {
		r.log.Error("a directive was refused", "error", err)
		return budget.CallFailed{}
	}
	r.others.told(d.Epoch, d.Others)
	r.emergency.InSession(sent)
	return budget.DirectiveReceived{Directive: d}
}

// restAtMost caps how long the store is left to checks between two parts of a directive. A part
// keeps a store busy for some 3 ms. If one took longer, it waited for a processor while the store
// was free.
const restAtMost = 5 * time.Millisecond

// applyPart makes the changes of one part, after it has left the store to checks for as long as the
// part before took. The state machine has one part under way at a time.
func (r *reporter) applyPart(ctx context.Context, part budget.ApplyShares) []budget.ShareResult {
	if part.Follows {
		background.Pause(ctx, min(r.lastPart, restAtMost))
	}
	began := r.auth.Now()
	results := r.apply(ctx, part.Changes)
	r.lastPart = r.auth.Now().Sub(began)
	return results
}

// apply makes share changes in the store.
func (r *reporter) apply(ctx context.Context, changes []budget.ShareChange) []budget.ShareResult {
	results := make([]budget.ShareResult, 0, len(changes))
	carried := &charge.Transaction{} // in the form of asks, for the debts that the changes carry
	var usable []budget.ShareChange
	p := r.policies.Load()
	for _, c := range changes {
		known, l, ok := p.LimitOf(c.Key.Rule, c.Limit)
		if !ok {
			results = append(results, unknownLimit(c))
			continue
		}
		usable = append(usable, c)
		carried.Asks = append(carried.Asks, charge.Charge{
			Limit: l, Enforcement: known.Enforcement, Forgives: known.Forgives, Key: c.Key, Right: c.Before, Changed: p.ChangedLimit(c.Key.Rule, l, r.auth.Now()),
		})
	}
	if len(usable) == 0 {
		r.tellHeard(ctx)
		return results
	}
	return append(results, r.applyUsable(ctx, usable, carried)...)
}

// unknownLimit returns the result of a change of a key whose limit is unknown: its rule is gone or
// has not arrived yet, and the leader does not send the limit either. The change is not sent to the
// store. A key that returns to cold needs no change there, because its share was the floor before.
func unknownLimit(c budget.ShareChange) budget.ShareResult {
	return budget.ShareResult{Key: c.Key, Unenforced: !c.Cold}
}

func (r *reporter) applyUsable(ctx context.Context, changes []budget.ShareChange, carried *charge.Transaction) []budget.ShareResult {
	r.learnClock(ctx)
	end := r.auth.Now().Add(storeguard.ApplyDeadline)
	head := r.auth.HeaderFor(carried.Asks)
	r.emergency.Applying(carried, head.Epoch)
	shares := make([]limit.Bucket, len(changes))
	call := make([]lua.Change, len(changes))
	for i, c := range changes {
		a := &carried.Asks[i]
		chunk, made := r.auth.Local.Ended(a, r.auth.Now())
		defer made()
		call[i].Key = lua.Key(a.Limit.Algorithm, c.Key.Rule, c.Key.Hash)
		call[i].View = head.View(a)
		call[i].View.Chunk = chunk
		shares[i] = entitlement.Bucket(a.Limit, c.Share)
		call[i].Gen, call[i].Share = c.Gen.Pack(), shares[i]
		call[i].Grant, call[i].Cold, call[i].From = limit.Tokens(c.Grant), c.Cold, c.From
	}
	applied, storeNow, err := r.applyInTime(ctx, end, head.Epoch, call)
	r.emergency.Applied(carried, shares, applied, storeNow)
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
			// Stale: the record has seen a later share than this leader's, so the store enforces
			// that one.
			Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label,
		}
	}
	return results
}

// learnClock asks the store for its time if the store's contents were learnt a moment ago and no
// check has asked since. Otherwise the shares at the start of a session could not be applied, and
// the session would end.
func (r *reporter) learnClock(ctx context.Context) {
	if r.auth.Clock.Until(r.auth.Now()) == 0 {
		r.tellHeard(ctx)
	}
}

// applyInTime applies changes before an instant or not at all. If the store has not answered, the
// changes may still be on their way to it. The leader must not learn that they failed while they
// could take effect, so this waits until they no longer can.
func (r *reporter) applyInTime(ctx context.Context, end budget.Instant, epoch string, call []lua.Change) ([]limit.Applied, int64, error) {
	deadline := r.auth.Clock.Until(end)
	if deadline == 0 {
		background.Pause(ctx, end.Sub(r.auth.Now())) // otherwise the next Hello would bring the same changes at once
		return nil, 0, errNoStoreClock
	}
	for i := range call {
		call[i].Deadline = deadline
	}
	applied, storeNow, err := r.guard.Apply(ctx, storeguard.ApplyDeadline, epoch, call)
	if err != nil && storeguard.Reason(err) != "epoch" {
		background.Pause(ctx, end.Sub(r.auth.Now())+time.Millisecond)
	}
	return applied, storeNow, err
}

// errNoStoreClock: the store's clock has not been read since the store was reached.
var errNoStoreClock = errors.New("the store's clock is not known yet")

// tellHeard lets the store know that a daemon of this region is heard. Another daemon that is cut
// off then does not take the floor back, which may be lent. Reports mention a store that does not
// take this mark. The leader then counts the region as silent if another daemon of it is known.
func (r *reporter) tellHeard(ctx context.Context) {
	_, _, err := r.guard.Apply(ctx, storeguard.HeardDeadline, r.auth.CurrentEpoch(), nil)
	r.others.marked(err == nil)
	if err != nil && storeguard.Reason(err) == "epoch" {
		_ = r.guard.Learn(ctx) // the next check and the probe ask again
	}
}

// applyFailed logs the error, and learns the store's contents if they are others now.
func (r *reporter) applyFailed(ctx context.Context, err error) {
	r.log.Warn("a directive could not be applied in the store; the session ends", "error", err)
	if storeguard.Reason(err) == "epoch" {
		_ = r.guard.Learn(ctx) // the next check and the probe ask again
	}
}
