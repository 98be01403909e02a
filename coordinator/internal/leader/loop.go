package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

const (
	// tickEvery is how long a change may wait for the next plan: small against a
	// WAN round trip, large against one commit.
	tickEvery = 20 * time.Millisecond
	// maxInbox bounds the requests that wait for the loop. Each region has one call
	// in flight, so only a flood of strangers fills it.
	maxInbox = 1024
	// proofTimeout bounds one commit or leadership proof; raft would have stepped
	// down long before.
	proofTimeout = 5 * time.Second
)

// reign is one epoch of this node as the leader: the loop that drives the machine
// of package budget. Any goroutine may post; everything else belongs to the loop.
type Loop struct {
	*Leadership
	epoch     uint64
	term      uint64 // of raft, in which the epoch was minted
	startedAt budget.Instant
	machine   *budget.Leader

	inbox      chan func(context.Context)
	done       chan struct{} // closed when nothing is taken from the inbox any more
	background sync.WaitGroup

	committed    chan error // the outcome of the commit in flight
	commitBegan  time.Time
	committing   budget.Plan // of the commit in flight; read only
	verified     chan error  // the outcome of the leadership proof in flight
	waiting      []waiter
	ledger       *budget.Ledger // the machine's own; read only
	floors       floorChange
	advanced     chan error // the outcome of the step of floors in flight
	rulesSerial  rulesSerial
	rulesVersion uint64
	rules        map[uint32]*rules.Rule // in force, or staged where none is, by number
	stagedRules  map[uint32]*rules.Rule // staged, by number
	rollout      rolloutWatch
	expiry       entryExpiry
	longestTails map[uint32]time.Duration
	failed       error // ends the loop
}

// newReign starts the machine on its own copy of the ledger, for a term of raft.
func newLoop(leadership *Leadership, ledger *budget.Ledger, term uint64) *Loop {
	now := leadership.now()
	l := &Loop{
		Leadership: leadership,
		epoch:      ledger.Epoch,
		term:       term,
		startedAt:  now,
		machine:    budget.NewLeader(ledger, now),
		ledger:     ledger,
		floors:     newFloorChange(&ledger.Config, now),
		advanced:   make(chan error, 1),
		inbox:      make(chan func(context.Context), maxInbox),
		done:       make(chan struct{}),
		committed:  make(chan error, 1),
		verified:   make(chan error, 1),
		rollout:    newRolloutWatch(len(ledger.Config.Regions), now),
		expiry:     entryExpiry{ended: make(chan error, 1)},
	}
	leadership.latencies.forgetSentAnswers()
	leadership.audit = leadership.audit.Resume(ledger.Config.RhoPPM, l.promise, now)
	return l
}

// run drives the machine until the leadership or ctx ends, or an outcome is in
// doubt. It reports whether raft announced a new term of this node (true only with
// errRaftChanged), and why it ended. Whoever still waits then is told that the leadership is over.
func (l *Loop) run(ctx context.Context, leading <-chan bool) (again bool, reason error) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.background.Wait()
	defer cancel()
	defer close(l.done)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	changed := l.node.Changed()
	l.reloadRules(ctx)
	for l.failed == nil {
		select {
		case <-ctx.Done():
			return false, errors.New("the daemon is stopping")
		case again := <-leading:
			return again, errRaftChanged
		case work := <-l.inbox:
			work(ctx)
		case err := <-l.committed:
			l.commitDone(ctx, err)
		case err := <-l.verified:
			l.verifyDone(ctx, err)
		case err := <-l.advanced:
			l.floorsAdvanced(err)
		case err := <-l.rollout.ended:
			l.rolloutEnded(err)
		case err := <-l.expiry.ended:
			l.entriesExpired(err)
		case <-changed:
			changed = l.node.Changed()
			l.endIfConfigChanged()
			l.reloadRulesIfChanged(ctx)
		case <-tick.C:
			l.step(ctx, budget.Tick{})
			l.advanceFloors(ctx)
			l.tickAudit()
			l.watchRollout(ctx)
			l.expireEntries(ctx)
			l.endSpentEpoch()
		}
	}
	return false, l.failed
}

// hot reports whether the ledger has a key, by its rule's number in force or staged.
func (l *Loop) isHot(k budget.KeyID) bool {
	if l.ledger.Shares(k) != nil {
		return true
	}
	staged, known := l.audit.StagedNumber(k.Rule)
	return known && l.ledger.Shares(budget.KeyID{Rule: staged, Hash: k.Hash}) != nil
}

func (l *Loop) inForce(rule uint32) bool { _, known := l.rules[rule]; return known }

// promised is what is promised of a limit now; nothing for a rule that is not in force.
// While regions go by two versions of a rule, the one that promises less is kept.
func (l *Loop) promise(rule uint32, limit budget.KeyLimit) budget.Promise {
	in := l.rules[rule]
	if in == nil {
		return budget.Promise{}
	}
	conditions := l.conditions(l.now())
	promise := PromiseTerms(in, limit, &l.ledger.Config, conditions).Promise()
	staged := l.stagedRules[rule]
	if other, known := l.audit.StagedNumber(rule); known {
		staged = l.stagedRules[other]
	}
	if staged != nil && staged != in {
		if looser := PromiseTerms(staged, limit, &l.ledger.Config, conditions).Promise(); looser.Excess > promise.Excess {
			return looser
		}
	}
	return promise
}

// watchTally lets time pass for what is counted.
func (l *Loop) tickAudit() {
	now := l.now()
	if slices.Contains(l.conditions(now).Silent, true) {
		l.audit.RegionSilent(now)
	}
	l.audit.Tick(now, l.isHot, l.inForce)
}

// post hands work to the loop. It does not wait for room: a full inbox means that
// the loop cannot keep up, and waiting would only make the callers late too.
func (l *Loop) post(work func(context.Context)) error {
	select {
	case <-l.done:
		return l.endError()
	default:
	}
	select {
	case l.inbox <- work:
		return nil
	default:
		return ErrOverloaded
	}
}

// endSpentEpoch ends the reign when half of its epoch's generations are used: the next one
// has an epoch of its own. Sessions open again, and leases last through that.
func (l *Loop) endSpentEpoch() {
	if l.failed == nil && l.machine.EpochSpent() {
		l.failed = ErrEpochSpent
	}
}

// ended is what to tell whoever the loop did not answer any more; over is closed.
func (l *Loop) endError() error {
	for _, known := range []error{ErrConfigChanged, ErrEpochSpent} {
		if errors.Is(l.failed, known) {
			return known
		}
	}
	return ErrLeadershipOver
}

// ask runs a query on the loop and waits for it. After an error the query may
// still run: what it writes must not be read then.
func (l *Loop) Query(ctx context.Context, query func(m *budget.Leader, now budget.Instant)) error {
	done := make(chan struct{})
	err := l.post(func(context.Context) {
		query(l.machine, l.now())
		close(done)
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-l.done:
		return l.endError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Loop) step(ctx context.Context, ev budget.LeaderEvent) {
	l.execute(ctx, l.machine.Step(ev, l.now()))
}

func (l *Loop) execute(ctx context.Context, effects []budget.LeaderEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case budget.Commit:
			l.commit(ctx, e.Plan)
		case budget.Verify:
			l.verify(ctx)
		case budget.Welcome:
			l.welcome(e.OK)
		case budget.Answer:
			l.answer(e.Directive)
		case budget.Refuse:
			l.refuse(e)
		default:
			panic(fmt.Sprintf("coordinator: unknown effect %T of the leader machine", effect))
		}
	}
}

// commit replicates a plan beside the loop; the machine asks for one at a time.
func (l *Loop) commit(ctx context.Context, plan budget.Plan) {
	l.commitBegan, l.committing = time.Now(), plan
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.committed <- l.node.CommitPlan(ctx, plan)
	})
}

// commitDone: an outcome in doubt ends the reign, for the machine must not build
// on it. The next one begins by reading what was really committed.
func (l *Loop) commitDone(ctx context.Context, err error) {
	if errors.Is(err, budget.ErrStalePlan) {
		l.endIfConfigChanged()
	}
	if l.failed != nil {
		return
	}
	if err != nil {
		l.failed = fmt.Errorf("commit of a plan: %w", err)
		if errors.Is(err, budget.ErrOvercommitted) || errors.Is(err, budget.ErrBadPlan) {
			l.log.Error("a plan was refused by the ledger; this is a bug, please report it", "error", err)
		}
		return
	}
	took := time.Since(l.commitBegan)
	l.latencies.commitTook(took)
	l.metrics.seconds.Observe(took.Seconds())
	l.metrics.changes.Add(float64(len(l.committing.Changes)))
	// The replicated ledger ignores what a plan says of rules that went away before
	// it. So the machine hears of such rules first, that it sends no share whose
	// liability was not stored, and again afterwards, to drop what the plan brought
	// back into its own ledger.
	l.reloadRulesIfChanged(ctx)
	l.step(ctx, budget.Committed{})
	if slices.ContainsFunc(l.committing.Changes, func(e budget.Entry) bool { return !l.inForce(e.Key.Rule) }) {
		l.step(ctx, l.rulesEvent())
	}
}

// verify proves the leadership beside the loop; the machine asks for one at a time.
func (l *Loop) verify(ctx context.Context) {
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.verified <- l.node.VerifyLeader(ctx, l.term)
	})
}

func (l *Loop) verifyDone(ctx context.Context, err error) {
	if err != nil {
		l.failed = fmt.Errorf("proof of leadership: %w", err)
		return
	}
	l.step(ctx, budget.Verified{})
}

// rulesMayHaveChanged looks whether what was just applied were rules.
func (l *Loop) reloadRulesIfChanged(ctx context.Context) {
	var serial rulesSerial
	l.node.View(func(s *clusterstate.State) { serial = serialOf(s) })
	if serial != l.rulesSerial {
		l.reloadRules(ctx)
	}
}

// rulesSerial tells any two states of the rules apart: a version that is staged, and
// one that is promoted, change only one of them.
type rulesSerial struct{ version, last uint64 }

func serialOf(s *clusterstate.State) rulesSerial { return rulesSerial{s.Rules.Version, s.Rules.Last} }

// stagedByNumber are the rules that are staged; empty without a roll-out.
func stagedByNumber(s *clusterstate.State) map[uint32]*rules.Rule {
	out := map[uint32]*rules.Rule{}
	if r := s.Rules.Rollout; r.UnderWay() {
		for id, number := range r.Numbers {
			out[number] = r.Set.Rule(id)
		}
	}
	return out
}

// countedAs is, for each rule with another number in the staged version than in force, the
// number in force by the staged one; nil if there is none. No stage that is accepted here has
// one: this is for the watch over the promise, which trusts nobody.
func stagedNumbers(s *clusterstate.State) map[uint32]uint32 {
	var out map[uint32]uint32
	if r := s.Rules.Rollout; r.UnderWay() {
		for id, number := range r.Numbers {
			if inForce, known := s.Rules.Numbers[id]; known && inForce != number {
				if out == nil {
					out = map[uint32]uint32{}
				}
				out[number] = inForce
			}
		}
	}
	return out
}

// rulesChanged tells the machine which rules there are, and lets every report that
// is held be answered: the new rules travel with the answer.
func (l *Loop) reloadRules(ctx context.Context) {
	l.node.View(func(s *clusterstate.State) {
		l.rulesSerial, l.rulesVersion = serialOf(s), s.Rules.Version
		l.stagedRules = stagedByNumber(s)
		l.expiry.next = s.Rules.NextEnd()
		l.audit.RulesChanged(s.Rules.Rollout.UnderWay(), stagedNumbers(s))
		l.rules = maps.Clone(l.stagedRules)
		maps.Copy(l.rules, RulesByNumber(s, nil))
		sets := []*rules.Set{s.Rules.Set}
		if l.rollout.follow(s.Rules.Rollout); l.rollout.staged != nil {
			sets = append(sets, l.rollout.staged.Set)
		}
		l.floors.setRules(&l.ledger.Config, sets...)
		l.longestTails = longestTailsByRule(s, l.stagedRules, l.longestTails)
	})
	l.breaches.keep(l.inForce)
	l.step(ctx, l.rulesEvent())
	l.execute(ctx, l.machine.ReleaseAll(l.now()))
}

// rulesNow tells the machine of the rules in force.
func (l *Loop) rulesEvent() budget.RulesChanged {
	tails := l.longestTails
	return budget.RulesChanged{Kept: l.inForce, Version: l.rulesVersion, Tail: func(rule uint32) time.Duration {
		if tail, known := tails[rule]; known {
			return tail
		}
		return budget.MaxTail
	}}
}

// tailsOf is the longest tail of the limits of each rule, by its number, in the versions
// that regions may go by: staged has those that are staged, before is what was found last,
// for a version that was staged is not kept. Another algorithm would have another number.
func longestTailsByRule(s *clusterstate.State, staged map[uint32]*rules.Rule, before map[uint32]time.Duration) map[uint32]time.Duration {
	out := make(map[uint32]time.Duration, len(s.Rules.Numbers))
	see := func(number uint32, rule *rules.Rule) {
		out[number] = max(out[number], before[number], longestTail(rule))
	}
	for number, rule := range RulesByNumber(s, nil) {
		if rule == nil {
			continue
		}
		see(number, rule)
		for _, o := range s.Rules.Older {
			if older := o.Set.Rule(rule.ID); older != nil && older.Algorithm == rule.Algorithm {
				see(number, older)
			}
		}
	}
	for number, rule := range staged {
		see(number, rule)
	}
	return out
}

// wanted is the keys of a report as the machine is to read them: without requests to make
// keys hot whose rule is not in force, for a region that still has the old rules would ask
// again with every report, each time for a commit that the ledger ignores.
func (l *Loop) dropUnknownRules(ctx context.Context, keys []budget.KeyReport) []budget.KeyReport {
	l.reloadRulesIfChanged(ctx) // the region may be ahead: it was sent what is applied here
	gone := func(k budget.KeyReport) bool { return k.Gen == (budget.Gen{}) && !k.Cold && !l.inForce(k.Key.Rule) }
	if !slices.ContainsFunc(keys, gone) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), gone)
}

// waiter is a Hello or a Report that the machine has not answered yet. The machine
// answers each exactly once, maybe at a later step.
type waiter struct {
	region int
	nonce  uint64 // of a Hello; 0 for a Report
	report budget.Report
	// decided is what the report tells beside what the machine reads.
	decisions DecisionCounts
	reply     chan reply // has room for the one answer
}

// reply is what the machine said to a Hello or a Report.
type reply struct {
	welcome   budget.HelloOK
	directive budget.Directive
	err       error
}

// hello hands a Hello to the machine and waits for its answer.
func (l *Loop) Hello(ctx context.Context, h budget.Hello) (budget.HelloOK, error) {
	w := waiter{region: h.Region, nonce: h.Nonce}
	got := l.await(ctx, w, func(context.Context) budget.LeaderEvent { return budget.HelloReceived{Hello: h} })
	return got.welcome, got.err
}

// report hands a Report to the machine and waits for its answer, which the machine
// may hold back for a moment.
func (l *Loop) Report(ctx context.Context, rep budget.Report, counts DecisionCounts) (budget.Directive, error) {
	w := waiter{region: rep.Region, report: rep, decisions: counts}
	got := l.await(ctx, w, func(loopCtx context.Context) budget.LeaderEvent {
		l.latencies.reportReceived(rep, l.now())
		rep.Keys = l.dropUnknownRules(loopCtx, rep.Keys)
		return budget.ReportReceived{Report: rep}
	})
	return got.directive, got.err
}

// await posts the event, which is made on the loop, and waits for the answer to w.
func (l *Loop) await(ctx context.Context, w waiter, event func(loopCtx context.Context) budget.LeaderEvent) reply {
	w.reply = make(chan reply, 1)
	err := l.post(func(loopCtx context.Context) {
		ev := event(loopCtx)
		l.waiting = append(l.waiting, w)
		l.step(loopCtx, ev)
	})
	if err != nil {
		return reply{err: err}
	}
	select {
	case got := <-w.reply:
		return got
	case <-ctx.Done():
		return reply{err: ctx.Err()}
	case <-l.done:
	}
	select {
	case got := <-w.reply: // it was answered before the end
		return got
	default:
		return reply{err: l.endError()}
	}
}

func (l *Loop) welcome(ok budget.HelloOK) {
	l.latencies.answerSent(ok.Region, ok.Session, 0, l.now())
	l.resolve(reply{welcome: ok}, func(w waiter) bool {
		return w.region == ok.Region && w.nonce == ok.Nonce
	})
}

func (l *Loop) answer(d budget.Directive) {
	now := l.now() // before the answer goes out: the tally builds on that order
	w, found := l.resolve(reply{directive: d}, func(w waiter) bool {
		return w.region == d.Region && w.nonce == 0 && w.report.Session == d.Session && w.report.Seq == d.Seq
	})
	l.latencies.answerSent(d.Region, d.Session, d.Seq, now)
	if found {
		l.latencies.setReportInterval(d.Region, w.report.Pace)
		l.rollout.regions[d.Region].add(w.decisions, now)
		l.audit.AddReport(w.report, now, l.isHot)
		l.logBreaches()
	}
}

func (l *Loop) refuse(refusal budget.Refuse) {
	l.resolve(reply{err: refusal.Err}, func(w waiter) bool {
		return w.region == refusal.Region && w.nonce == refusal.Nonce && (w.nonce != 0 || w.report.Seq == refusal.Seq)
	})
}

// resolve answers the newest waiter that matches: of two messages with the same
// number the earlier was settled, or is refused next.
func (l *Loop) resolve(answer reply, matches func(waiter) bool) (waiter, bool) {
	for i := len(l.waiting) - 1; i >= 0; i-- {
		if w := l.waiting[i]; matches(w) {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			w.reply <- answer
			return w, true
		}
	}
	return waiter{}, false
}
