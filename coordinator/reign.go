package coordinator

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
type reign struct {
	*leadership
	epoch   uint64
	term    uint64 // of raft, in which the epoch was minted
	began   budget.Instant
	machine *budget.Leader

	inbox   chan func(context.Context)
	over    chan struct{} // closed when nothing is taken from the inbox any more
	pending sync.WaitGroup

	committed    chan error // the outcome of the commit in flight
	commitBegan  time.Time
	inFlight     budget.Plan // of the commit in flight; read only
	verified     chan error  // the outcome of the leadership proof in flight
	waiting      []waiter
	ledger       *budget.Ledger // the machine's own; read only
	floors       floors
	advanced     chan error // the outcome of the step of floors in flight
	rulesSerial  rulesSerial
	rulesVersion uint64
	rules        map[uint32]*rules.Rule // in force, or staged where none is, by number
	staged       map[uint32]*rules.Rule // staged, by number
	rollout      rollout
	entries      entryEnds
	tails        map[uint32]time.Duration
	failed       error // ends the loop
}

// newReign starts the machine on its own copy of the ledger, for a term of raft.
func newReign(l *leadership, ledger *budget.Ledger, term uint64) *reign {
	now := l.now()
	r := &reign{
		leadership: l,
		epoch:      ledger.Epoch,
		term:       term,
		began:      now,
		machine:    budget.NewLeader(ledger, now),
		ledger:     ledger,
		floors:     newFloors(&ledger.Config, now),
		advanced:   make(chan error, 1),
		inbox:      make(chan func(context.Context), maxInbox),
		over:       make(chan struct{}),
		committed:  make(chan error, 1),
		verified:   make(chan error, 1),
		rollout:    newRollout(len(ledger.Config.Regions), now),
		entries:    entryEnds{ended: make(chan error, 1)},
	}
	l.pace.newReign()
	l.tally = l.tally.resume(ledger.Config.RhoPPM, r.promised, now)
	return r
}

// run drives the machine until the leadership or ctx ends, or an outcome is in
// doubt. It reports whether raft announced a new term of this node (true only with
// errRaftChanged), and why it ended. Whoever still waits then is told that the leadership is over.
func (r *reign) run(ctx context.Context, leading <-chan bool) (again bool, reason error) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.pending.Wait()
	defer cancel()
	defer close(r.over)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	changed := r.node.Changed()
	r.rulesChanged(ctx)
	for r.failed == nil {
		select {
		case <-ctx.Done():
			return false, errors.New("the daemon is stopping")
		case again := <-leading:
			return again, errRaftChanged
		case work := <-r.inbox:
			work(ctx)
		case err := <-r.committed:
			r.commitDone(ctx, err)
		case err := <-r.verified:
			r.verifyDone(ctx, err)
		case err := <-r.advanced:
			r.advanceDone(err)
		case err := <-r.rollout.ended:
			r.rolloutEnded(err)
		case err := <-r.entries.ended:
			r.entriesEnded(err)
		case <-changed:
			changed = r.node.Changed()
			r.configMayHaveChanged()
			r.rulesMayHaveChanged(ctx)
		case <-tick.C:
			r.step(ctx, budget.Tick{})
			r.advanceFloors(ctx)
			r.watchTally()
			r.watchRollout(ctx)
			r.endEntries(ctx)
			r.endSpentEpoch()
		}
	}
	return false, r.failed
}

// hot reports whether the ledger has a key, by its rule's number in force or staged.
func (r *reign) hot(k budget.KeyID) bool {
	if r.ledger.Shares(k) != nil {
		return true
	}
	for staged, inForce := range r.tally.counted {
		if inForce == k.Rule {
			return r.ledger.Shares(budget.KeyID{Rule: staged, Hash: k.Hash}) != nil
		}
	}
	return false
}

func (r *reign) inForce(rule uint32) bool { _, known := r.rules[rule]; return known }

// promised is what is promised of a limit now; nothing for a rule that is not in force.
// While regions go by two versions of a rule, the one that promises less is kept.
func (r *reign) promised(rule uint32, l budget.KeyLimit) budget.Promise {
	in := r.rules[rule]
	if in == nil {
		return budget.Promise{}
	}
	around := r.surroundings(r.now())
	promise := terms(in, l, &r.ledger.Config, around).Promise()
	staged := r.staged[rule]
	for other, inForce := range r.tally.counted {
		if inForce == rule {
			staged = r.staged[other]
		}
	}
	if staged != nil && staged != in {
		if looser := terms(staged, l, &r.ledger.Config, around).Promise(); looser.Excess > promise.Excess {
			return looser
		}
	}
	return promise
}

// watchTally lets time pass for what is counted.
func (r *reign) watchTally() {
	now := r.now()
	if slices.Contains(r.surroundings(now).silent, true) {
		r.tally.unheard = now
	}
	r.tally.tick(now, r.hot, r.inForce)
}

// post hands work to the loop. It does not wait for room: a full inbox means that
// the loop cannot keep up, and waiting would only make the callers late too.
func (r *reign) post(work func(context.Context)) error {
	select {
	case <-r.over:
		return r.ended()
	default:
	}
	select {
	case r.inbox <- work:
		return nil
	default:
		return errOverloaded
	}
}

// endSpentEpoch ends the reign when half of its epoch's generations are used: the next one
// has an epoch of its own. Sessions open again, and leases last through that.
func (r *reign) endSpentEpoch() {
	if r.failed == nil && r.machine.EpochSpent() {
		r.failed = errEpochSpent
	}
}

// ended is what to tell whoever the loop did not answer any more; over is closed.
func (r *reign) ended() error {
	for _, known := range []error{errConfigChanged, errEpochSpent} {
		if errors.Is(r.failed, known) {
			return known
		}
	}
	return errLeadershipOver
}

// ask runs a query on the loop and waits for it. After an error the query may
// still run: what it writes must not be read then.
func (r *reign) ask(ctx context.Context, query func(m *budget.Leader, now budget.Instant)) error {
	done := make(chan struct{})
	err := r.post(func(context.Context) {
		query(r.machine, r.now())
		close(done)
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-r.over:
		return r.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reign) step(ctx context.Context, ev budget.LeaderEvent) {
	r.execute(ctx, r.machine.Step(ev, r.now()))
}

func (r *reign) execute(ctx context.Context, effects []budget.LeaderEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case budget.Commit:
			r.commit(ctx, e.Plan)
		case budget.Verify:
			r.verify(ctx)
		case budget.Welcome:
			r.welcome(e.OK)
		case budget.Answer:
			r.answer(e.Directive)
		case budget.Refuse:
			r.refuse(e)
		default:
			panic(fmt.Sprintf("coordinator: unknown effect %T of the leader machine", effect))
		}
	}
}

// commit replicates a plan beside the loop; the machine asks for one at a time.
func (r *reign) commit(ctx context.Context, plan budget.Plan) {
	r.commitBegan, r.inFlight = time.Now(), plan
	r.pending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		r.committed <- r.node.CommitPlan(ctx, plan)
	})
}

// commitDone: an outcome in doubt ends the reign, for the machine must not build
// on it. The next one begins by reading what was really committed.
func (r *reign) commitDone(ctx context.Context, err error) {
	if errors.Is(err, budget.ErrStalePlan) {
		r.configMayHaveChanged()
	}
	if r.failed != nil {
		return
	}
	if err != nil {
		r.failed = fmt.Errorf("commit of a plan: %w", err)
		if errors.Is(err, budget.ErrOvercommitted) || errors.Is(err, budget.ErrBadPlan) {
			r.log.Error("a plan was refused by the ledger; this is a bug, please report it", "error", err)
		}
		return
	}
	took := time.Since(r.commitBegan)
	r.pace.committed(took)
	r.metrics.rebalanceSeconds.Observe(took.Seconds())
	r.metrics.rebalanceChanges.Add(float64(len(r.inFlight.Changes)))
	// The replicated ledger ignores what a plan says of rules that went away before
	// it. So the machine hears of such rules first, that it sends no share whose
	// liability was not stored, and again afterwards, to drop what the plan brought
	// back into its own ledger.
	r.rulesMayHaveChanged(ctx)
	r.step(ctx, budget.Committed{})
	if slices.ContainsFunc(r.inFlight.Changes, func(e budget.Entry) bool { return !r.inForce(e.Key.Rule) }) {
		r.step(ctx, r.rulesNow())
	}
}

// verify proves the leadership beside the loop; the machine asks for one at a time.
func (r *reign) verify(ctx context.Context) {
	r.pending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		r.verified <- r.node.VerifyLeader(ctx, r.term)
	})
}

func (r *reign) verifyDone(ctx context.Context, err error) {
	if err != nil {
		r.failed = fmt.Errorf("proof of leadership: %w", err)
		return
	}
	r.step(ctx, budget.Verified{})
}

// rulesMayHaveChanged looks whether what was just applied were rules.
func (r *reign) rulesMayHaveChanged(ctx context.Context) {
	var serial rulesSerial
	r.node.View(func(s *clusterstate.State) { serial = serialOf(s) })
	if serial != r.rulesSerial {
		r.rulesChanged(ctx)
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
func countedAs(s *clusterstate.State) map[uint32]uint32 {
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
func (r *reign) rulesChanged(ctx context.Context) {
	r.node.View(func(s *clusterstate.State) {
		r.rulesSerial, r.rulesVersion = serialOf(s), s.Rules.Version
		r.staged = stagedByNumber(s)
		r.entries.next = s.Rules.NextEnd()
		r.tally.staged, r.tally.counted = s.Rules.Rollout.UnderWay(), countedAs(s)
		r.rules = maps.Clone(r.staged)
		maps.Copy(r.rules, rulesByNumber(s, nil))
		sets := []*rules.Set{s.Rules.Set}
		if r.rollout.follow(s.Rules.Rollout); r.rollout.staged != nil {
			sets = append(sets, r.rollout.staged.Set)
		}
		r.floors.ruleTimes(&r.ledger.Config, sets...)
		r.tails = tailsOf(s, r.staged, r.tails)
	})
	r.tally.version++
	r.breaches.keep(r.inForce)
	r.step(ctx, r.rulesNow())
	r.execute(ctx, r.machine.ReleaseAll(r.now()))
}

// rulesNow tells the machine of the rules in force.
func (r *reign) rulesNow() budget.RulesChanged {
	tails := r.tails
	return budget.RulesChanged{Kept: r.inForce, Version: r.rulesVersion, Tail: func(rule uint32) time.Duration {
		if tail, known := tails[rule]; known {
			return tail
		}
		return budget.MaxTail
	}}
}

// tailsOf is the longest tail of the limits of each rule, by its number, in the versions
// that regions may go by: staged has those that are staged, before is what was found last,
// for a version that was staged is not kept. Another algorithm would have another number.
func tailsOf(s *clusterstate.State, staged map[uint32]*rules.Rule, before map[uint32]time.Duration) map[uint32]time.Duration {
	out := make(map[uint32]time.Duration, len(s.Rules.Numbers))
	see := func(number uint32, rule *rules.Rule) {
		out[number] = max(out[number], before[number], longestTail(rule))
	}
	for number, rule := range rulesByNumber(s, nil) {
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
func (r *reign) wanted(ctx context.Context, keys []budget.KeyReport) []budget.KeyReport {
	r.rulesMayHaveChanged(ctx) // the region may be ahead: it was sent what is applied here
	gone := func(k budget.KeyReport) bool { return k.Gen == (budget.Gen{}) && !k.Cold && !r.inForce(k.Key.Rule) }
	if !slices.ContainsFunc(keys, gone) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), gone)
}
