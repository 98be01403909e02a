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
	"aliquot/budget/promise"
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

const (
	// tickEvery bounds how long a change waits for the next plan. It is short compared with a WAN round
	// trip, and long compared with a commit.
	tickEvery = 20 * time.Millisecond
	// maxInbox bounds the requests that wait for the loop. Each region has one call in flight, so only a
	// flood of strange callers fills it.
	maxInbox = 1024
	// proofTimeout bounds one commit or one proof of leadership. Raft steps down long before.
	proofTimeout = 5 * time.Second
)

// Loop is one epoch of this node as the leader. Its goroutine drives the state machine of package
// budget. The exported methods may be called by any goroutine; all other methods and fields belong to
// the goroutine of the loop.
type Loop struct {
	*Leadership
	epoch     uint64
	term      uint64 // of raft, in which the epoch was created
	startedAt budget.Instant
	machine   *budget.Leader

	inbox      chan func(context.Context)
	done       chan struct{} // closed when the loop reads the inbox no more
	background sync.WaitGroup

	committed    chan error // the outcome of the commit in flight
	commitBegan  time.Time
	committing   budget.Plan // of the commit in flight; read only
	verified     chan error  // the outcome of the leadership proof in flight
	waiting      []waiter
	ledger       *budget.Ledger // of the state machine; read only
	floors       floorChange
	advanced     chan error // the outcome of the change of floors in flight
	rulesSerial  rulesSerial
	rulesVersion uint64
	rules        map[uint32]*rules.Rule // by number: the rule in force, or the staged one if none is in force
	stagedRules  map[uint32]*rules.Rule // by number: the staged rules
	rollout      rolloutWatch
	expiry       entryExpiry
	longestTails map[uint32]time.Duration
	failed       error // why the loop ends; nil while it runs
}

// newLoop returns a Loop with a state machine that owns the ledger. term is the term of raft in which
// the epoch was created.
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

// run drives the state machine until the leadership or ctx ends, or an outcome is in doubt. It returns
// why it ended, and whether raft announced a new term of this node (true only with errRaftChanged).
// Callers that still wait get ErrLeadershipOver.
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

// isHot reports whether the ledger has a key under the number of its rule in force, or under the staged
// number.
func (l *Loop) isHot(k budget.KeyID) bool {
	if l.ledger.Shares(k) != nil {
		return true
	}
	staged, known := l.audit.StagedNumber(k.Rule)
	return known && l.ledger.Shares(budget.KeyID{Rule: staged, Hash: k.Hash}) != nil
}

func (l *Loop) inForce(rule uint32) bool { _, known := l.rules[rule]; return known }

// promise returns what is promised of a limit now; the zero Promise for a rule that is not in force.
// While regions follow two versions of a rule, it returns the looser promise of both.
func (l *Loop) promise(rule uint32, limit budget.KeyLimit) promise.Promise {
	in := l.rules[rule]
	if in == nil {
		return promise.Promise{}
	}
	conditions := l.conditions(l.now())
	promise := PromiseTerms(in, limit, &l.ledger.Config, conditions).Promise()
	staged := l.stagedRules[rule]
	if other, known := l.audit.StagedNumber(rule); known {
		staged = l.stagedRules[other]
	}
	if staged != nil && staged != in {
		if looser := PromiseTerms(staged, limit, &l.ledger.Config, conditions).Promise(); looser.Excess+looser.Forgiven > promise.Excess+promise.Forgiven {
			return looser
		}
	}
	return promise
}

// tickAudit lets the audit see the time pass, and tells it of silent regions.
func (l *Loop) tickAudit() {
	now := l.now()
	if slices.Contains(l.conditions(now).Silent, true) {
		l.audit.RegionSilent(now)
	}
	l.audit.Tick(now, l.isHot, l.inForce)
}

// post puts work into the queue of the loop. It does not wait if the queue is full: then the loop
// cannot keep up, and waiting would only delay the callers too.
func (l *Loop) post(work func(context.Context)) error {
	if err := l.Ended(); err != nil {
		return err
	}
	select {
	case l.inbox <- work:
		return nil
	default:
		return ErrOverloaded
	}
}

// endSpentEpoch ends the loop when half of the epoch's generations are used. The next loop has a new
// epoch. Sessions open again, and leases last through the change.
func (l *Loop) endSpentEpoch() {
	if l.failed == nil && l.machine.EpochSpent() {
		l.failed = ErrEpochSpent
	}
}

// endError returns the error for a request that the loop did not answer. It may be called once done is
// closed.
func (l *Loop) endError() error {
	for _, known := range []error{ErrConfigChanged, ErrEpochSpent} {
		if errors.Is(l.failed, known) {
			return known
		}
	}
	return ErrLeadershipOver
}

// Query runs a function on the loop and waits for it. The function may read the state machine and must
// not block. After an error the function may still run: the caller must not read what it writes.
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

// step passes an event to the state machine and executes the effects.
func (l *Loop) step(ctx context.Context, ev budget.LeaderEvent) {
	l.execute(ctx, l.machine.Step(ev, l.now()))
}

// execute carries out the effects of the state machine.
func (l *Loop) execute(ctx context.Context, effects []budget.LeaderEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case budget.Commit:
			l.commit(ctx, e.Plan)
		case budget.Verify:
			l.verify(ctx)
		case budget.Welcome:
			l.welcome(e)
		case budget.Answer:
			l.answer(e.Directive)
		case budget.Refuse:
			l.refuse(e)
		default:
			panic(fmt.Sprintf("coordinator: unknown effect %T of the leader's state machine", effect))
		}
	}
}

// commit replicates a plan in the background. The state machine asks for one commit at a time.
func (l *Loop) commit(ctx context.Context, plan budget.Plan) {
	l.commitBegan, l.committing = time.Now(), plan
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.committed <- l.node.CommitPlan(ctx, plan)
	})
}

// commitDone handles the outcome of a commit. An outcome in doubt ends the loop, because the state
// machine must not build on it. The next loop starts by reading what was really committed.
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
	// The replicated ledger ignores the parts of a plan whose rules were removed before the plan.
	// The state machine learns of such rules first, so that it sends no share whose liability was
	// not stored. It learns of them again afterwards, to drop what the plan put back into its own
	// ledger.
	l.reloadRulesIfChanged(ctx)
	l.step(ctx, budget.Committed{})
	if slices.ContainsFunc(l.committing.Changes, func(e budget.Entry) bool { return !l.inForce(e.Key.Rule) }) {
		l.step(ctx, l.rulesEvent())
	}
}

// verify proves the leadership in the background. The state machine asks for one proof at a time.
func (l *Loop) verify(ctx context.Context) {
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.verified <- l.node.VerifyLeader(ctx, l.term)
	})
}

// verifyDone handles the outcome of a proof; a failed proof ends the loop.
func (l *Loop) verifyDone(ctx context.Context, err error) {
	if err != nil {
		l.failed = fmt.Errorf("proof of leadership: %w", err)
		return
	}
	l.step(ctx, budget.Verified{})
}

// reloadRulesIfChanged reloads the rules if the replicated state has others than the loop.
func (l *Loop) reloadRulesIfChanged(ctx context.Context) {
	var serial rulesSerial
	l.node.View(func(s *clusterstate.State) { serial = serialOf(s) })
	if serial != l.rulesSerial {
		l.reloadRules(ctx)
	}
}

// rulesSerial differs between any two states of the rules. Staging a version and promoting one change
// only one of its fields.
type rulesSerial struct{ version, last uint64 }

func serialOf(s *clusterstate.State) rulesSerial { return rulesSerial{s.Rules.Version, s.Rules.Last} }

// stagedByNumber returns the staged rules by number; an empty map without a roll-out.
func stagedByNumber(s *clusterstate.State) map[uint32]*rules.Rule {
	out := map[uint32]*rules.Rule{}
	if r := s.Rules.Rollout; r.UnderWay() {
		for id, number := range r.Numbers {
			out[number] = r.Set.Rule(id)
		}
	}
	return out
}

// stagedNumbers maps the number of a rule in the staged version to its different number in force; nil
// if no rule has two. This node accepts no stage in which a rule has two numbers. The audit counts them
// anyway, because it must not rely on that check.
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

// reloadRules passes the current rules to the state machine, and lets it answer every report that it
// holds back: the new rules travel with the answer.
func (l *Loop) reloadRules(ctx context.Context) {
	l.node.View(func(s *clusterstate.State) {
		l.rulesSerial, l.rulesVersion = serialOf(s), s.Rules.Version
		l.stagedRules = stagedByNumber(s)
		l.expiry.next = s.Rules.NextEnd()
		l.audit.RulesChanged(s.Rules.Rollout.UnderWay(), stagedNumbers(s))
		l.rules = maps.Clone(l.stagedRules)
		maps.Copy(l.rules, RulesByNumber(s, nil))
		sets := []*rules.Set{s.Rules.Set}
		if l.rollout.follow(&s.Rules); l.rollout.staged != nil {
			sets = append(sets, l.rollout.staged.Set)
		}
		l.floors.setRules(&l.ledger.Config, sets...)
		l.longestTails = longestTailsByRule(s, l.stagedRules, l.longestTails)
	})
	l.breaches.keep(l.inForce)
	l.step(ctx, l.rulesEvent())
	l.execute(ctx, l.machine.ReleaseAll(l.now()))
}

// rulesEvent returns the event that tells the state machine the current rules.
func (l *Loop) rulesEvent() budget.RulesChanged {
	tails := l.longestTails
	return budget.RulesChanged{Kept: l.inForce, Version: l.rulesVersion, Newest: l.rulesSerial.last, Tail: func(rule uint32) time.Duration {
		if tail, known := tails[rule]; known {
			return tail
		}
		return budget.MaxTail
	}}
}

// longestTailsByRule returns, by rule number, the longest tail of the rule's limits in every version
// that a region may follow. staged are the staged rules. before is the previous result: it stands for
// staged versions that are no longer kept. A rule with another algorithm has another number.
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

// dropUnknownRules returns the keys of a report without requests to make keys hot whose rule is not in
// force. A region that still has old rules would repeat such a request with every report, and each
// would cost a commit that the ledger ignores.
func (l *Loop) dropUnknownRules(ctx context.Context, keys []budget.KeyReport) []budget.KeyReport {
	l.reloadRulesIfChanged(ctx) // the region may be ahead: it receives rules as soon as they are applied here
	gone := func(k budget.KeyReport) bool { return k.Gen == (budget.Gen{}) && !k.Cold && !l.inForce(k.Key.Rule) }
	if !slices.ContainsFunc(keys, gone) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), gone)
}

// waiter is a Hello or a Report without an answer yet. The state machine answers each one exactly once,
// possibly at a later step.
type waiter struct {
	region      int
	incarnation uint64 // of a Hello, as nonce
	nonce       uint64 // of a Hello; 0 for a Report
	report      budget.Report
	// decisions are the counts of the report that the state machine does not read.
	decisions DecisionCounts
	spent     []budget.Spent
	reply     chan reply // with room for the one answer
}

// reply is the state machine's answer to a Hello or a Report.
type reply struct {
	welcome   budget.HelloOK
	directive budget.Directive
	err       error
}

// Hello passes a Hello to the state machine and waits for its answer.
func (l *Loop) Hello(ctx context.Context, h budget.Hello) (budget.HelloOK, error) {
	w := waiter{region: h.Region, incarnation: h.Incarnation, nonce: h.Nonce}
	got := l.await(ctx, w, func(context.Context) budget.LeaderEvent { return budget.HelloReceived{Hello: h} })
	return got.welcome, got.err
}

// Report passes a Report to the state machine and waits for its answer, which the state machine may
// hold back for a moment. counts are the decisions that the region counted since it took its rules.
// spent is the use that the report tells the audit beside its counters.
func (l *Loop) Report(ctx context.Context, rep budget.Report, counts DecisionCounts, spent []budget.Spent) (budget.Directive, error) {
	w := waiter{region: rep.Region, report: rep, decisions: counts, spent: spent}
	got := l.await(ctx, w, func(loopCtx context.Context) budget.LeaderEvent {
		l.latencies.reportReceived(rep, l.now())
		rep.Keys = l.dropUnknownRules(loopCtx, rep.Keys)
		return budget.ReportReceived{Report: rep}
	})
	return got.directive, got.err
}

// await posts the event, which is created on the loop, and waits for the answer to w.
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
	case got := <-w.reply: // the answer came before the end
		return got
	default:
		return reply{err: l.endError()}
	}
}

// welcome answers a Hello.
func (l *Loop) welcome(e budget.Welcome) {
	ok := e.OK
	l.latencies.answerSent(ok.Region, ok.Session, 0, l.now())
	l.resolve(reply{welcome: ok}, func(w waiter) bool {
		return w.region == ok.Region && w.incarnation == e.Incarnation && w.nonce == ok.Nonce
	})
}

// answer answers a Report, and counts it.
func (l *Loop) answer(d budget.Directive) {
	now := l.now() // read before the answer is sent: the audit relies on this order
	w, found := l.resolve(reply{directive: d}, func(w waiter) bool {
		return w.region == d.Region && w.nonce == 0 && w.report.Session == d.Session && w.report.Seq == d.Seq
	})
	l.latencies.answerSent(d.Region, d.Session, d.Seq, now)
	if found {
		l.latencies.setReportInterval(d.Region, w.report.Pace)
		l.rollout.add(&l.ledger.Config, d.Region, w.decisions, now)
		from := l.audit.AddReport(w.report, now, l.isHot)
		l.audit.AddSpent(d.Region, w.spent, from, now, l.isHot)
		l.logBreaches()
	}
}

// refuse answers a Hello or a Report with an error.
func (l *Loop) refuse(refusal budget.Refuse) {
	l.resolve(reply{err: refusal.Err}, func(w waiter) bool {
		return w.region == refusal.Region && w.incarnation == refusal.Incarnation && w.nonce == refusal.Nonce && (w.nonce != 0 || w.report.Seq == refusal.Seq)
	})
}

// resolve answers the newest waiter that matches. Of two messages with the same number the earlier one
// has its answer, or is refused next.
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
