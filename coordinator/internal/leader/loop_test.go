package leader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	clusterstate "aliquot/cluster/state"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/internal/boottime"
	"aliquot/rules"
)

const (
	oneRule = `defaults: {enforcement: strict}
rules:
  - id: r1
    key: [api_key]
    params: {capacity: 100, refill_rate: 10}
`
	twoRules = oneRule + `  - id: r2
    key: [api_key]
    params: {capacity: 100, refill_rate: 10}
`
)

// loopTest is a leader loop on a real cluster of one node; the test itself runs the loop.
type loopTest struct {
	*Loop
	t   *testing.T
	now budget.Instant
	seq []uint64
}

func newLoopTest(t *testing.T) *loopTest {
	t.Helper()
	c := &loopTest{t: t, now: 1}
	l := leadershipOfOne(t, func() budget.Instant { return c.now })
	select {
	case <-l.node.LeaderCh():
	case <-time.After(time.Minute):
		t.Fatal("no leader")
	}
	var err error
	if c.Loop, err = l.establish(t.Context()); err != nil {
		t.Fatal(err)
	}
	regions := len(c.ledger.Config.Regions)
	c.seq = make([]uint64, regions)
	c.reloadRules(t.Context())
	for i := range regions {
		c.step(t.Context(), budget.HelloReceived{Hello: budget.Hello{Region: i, Incarnation: 1, Nonce: 1, RedisEpoch: "n:r:1"}})
	}
	if !c.do(c.plan()) {
		t.Fatal("the regions' first store contents were not put on record")
	}
	return c
}

// leadershipOfOne is the leadership of a real node of one, which nothing runs yet.
func leadershipOfOne(t *testing.T, clock func() budget.Instant) *Leadership {
	t.Helper()
	cfg := cluster.DefaultConfig()
	cfg.NodeID, cfg.DataDir, cfg.BootstrapExpect = "c1", t.TempDir(), 1
	cfg.RaftListen, cfg.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Regions, cfg.RulesYAML = []string{"us", "eu"}, twoRules
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	node, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return New(node, clock, cfg.Logger, NewMetrics(prometheus.NewRegistry()))
}

// plan lets the machine plan, without executing it.
func (c *loopTest) plan() []budget.LeaderEffect {
	c.now = c.now.Add(tickEvery)
	return c.machine.Step(budget.Tick{}, c.now)
}

// do executes effects, and takes the outcome if there is a commit among them.
func (c *loopTest) do(effects []budget.LeaderEffect) (committed bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	c.execute(ctx, effects)
	if !slices.ContainsFunc(effects, isCommit) {
		return false
	}
	select {
	case err := <-c.committed:
		c.commitDone(ctx, err)
	case <-ctx.Done():
		c.t.Fatal("nothing was committed")
	}
	if c.failed != nil {
		c.t.Fatal(c.failed)
	}
	return true
}

func isCommit(e budget.LeaderEffect) bool {
	_, is := e.(budget.Commit)
	return is
}

// report has a region send its next report, by the loop's part of the way a real
// one takes.
func (c *loopTest) report(region int, keys ...budget.KeyReport) {
	c.seq[region]++
	rep := budget.Report{
		Region: region, Epoch: c.epoch, Session: uint64(region + 1), Seq: c.seq[region], Ack: c.seq[region] - 1,
		Keys: c.dropUnknownRules(c.t.Context(), keys),
	}
	c.step(c.t.Context(), budget.ReportReceived{Report: rep})
}

func (c *loopTest) apply(yaml string) {
	c.t.Helper()
	if _, err := c.node.ApplyRules(c.t.Context(), cluster.RulesChange{YAML: yaml, FileName: "r.yaml", Author: "test"}); err != nil {
		c.t.Fatal(err)
	}
}

// hotKeys counts them in the replicated ledger, and in the machine.
func (c *loopTest) hotKeys() (replicated, own int) {
	c.node.View(func(s *clusterstate.State) { replicated = s.Ledger.Len() })
	if _, own = c.machine.Stats(); own != c.ledger.Len() {
		c.t.Errorf("the machine has %d keys and its ledger %d", own, c.ledger.Len())
	}
	return replicated, own
}

// wish asks for a key of a rule to become hot.
func wish(rule uint32) budget.KeyReport {
	return budget.KeyReport{
		Key:   budget.KeyID{Rule: rule, Hash: [16]byte{1}},
		Limit: budget.KeyLimit{Capacity: 100e6, Rate: 10e6}, Offered: 1e6, Rejecting: true,
	}
}

// A rule goes away while the plan that makes one of its keys hot is on its way: the
// replicated ledger ignores that part, and the machine must not keep the key either,
// whichever of the two it hears of first.
func TestRuleDroppedWhileItsPlanIsOnItsWay(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]func(*loopTest){
		"commit first": func(*loopTest) {},
		"rules first":  func(c *loopTest) { c.reloadRulesIfChanged(c.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newLoopTest(t)
			c.report(0, wish(1))
			c.do(c.plan())
			if replicated, own := c.hotKeys(); replicated != 1 || own != 1 {
				t.Fatalf("%d and %d hot keys, want the one asked for", replicated, own)
			}
			c.report(1, wish(2))
			planned := c.plan()
			c.apply(oneRule)
			heard(c)
			if !c.do(planned) {
				t.Fatal("the plan holds no commit: nothing was tested")
			}
			if replicated, own := c.hotKeys(); replicated != 1 || own != 1 {
				t.Errorf("%d replicated and %d own hot keys, want 1 and 1: that of the rule in force", replicated, own)
			}
		})
	}
}

// A region that still has the old rules asks for keys of a rule that is gone: that
// costs no commit.
func TestWishForADroppedRuleCostsNothing(t *testing.T) {
	c := newLoopTest(t)
	c.apply(oneRule) // the leader loop has not been told
	c.report(0, wish(2))
	if c.do(c.plan()) {
		t.Error("something was committed")
	}
	c.report(1, wish(1))
	if !c.do(c.plan()) {
		t.Error("nothing was committed for the rule in force")
	}
	if replicated, own := c.hotKeys(); replicated != 1 || own != 1 {
		t.Errorf("%d replicated and %d own hot keys, want 1 and 1", replicated, own)
	}
	// Rules that a region may know before the loop was told are not taken for gone.
	c.apply(twoRules)
	var number uint32
	c.node.View(func(s *clusterstate.State) { number = s.Rules.Numbers["r2"] })
	c.now = c.now.Add(time.Second)
	c.do(c.plan()) // answers the first report
	c.report(0, wish(number))
	c.do(c.plan())
	if replicated, own := c.hotKeys(); replicated != 2 || own != 2 {
		t.Errorf("%d replicated and %d own hot keys, want 2 and 2", replicated, own)
	}
}

// TestStagedNumbers: a rule's two numbers are counted as one while a version is staged, and not after
// a change without a stage: then the older number is not reported any more, and what the newer
// one admits is within its own promise.
func TestStagedNumbers(t *testing.T) {
	parse := func(yaml string) *rules.Set {
		set, _, err := rules.Parse("r.yaml", []byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	s := &clusterstate.State{Rules: clusterstate.RuleBook{Set: parse(twoRules), Numbers: map[string]uint32{"r1": 1, "r2": 2}}}
	if got := stagedNumbers(s); got != nil {
		t.Errorf("without a stage: %v", got)
	}
	// As a coordinator without the refusal would have it.
	s.Rules.Rollout = &clusterstate.Rollout{State: clusterstate.RolloutStaged, Set: parse(twoRules), Numbers: map[string]uint32{"r1": 7, "r2": 2, "new": 8}}
	if got := stagedNumbers(s); len(got) != 1 || got[7] != 1 {
		t.Errorf("%v, want 7 counted as 1", got)
	}
}

// TestTailsOfTheRules: what the machine waits for where nobody tells it a limit.
func TestTailsOfTheRules(t *testing.T) {
	t.Parallel()
	c := newLoopTest(t)
	c.apply(twoRules + `  - id: windows
    algorithm: fixed_window
    key: [api_key]
    params: {limit: 100, window: 60}
    override:
      "slow*": {limit: 100, window: 3600}
  - id: brought
    algorithm: fixed_window
    key: [api_key]
    params: {limit: 100, window: 60}
    request_limit: allow
  - {id: bucket, request_limit: allow, key: [api_key], params: {capacity: 100, refill_rate: 60}}
`)
	c.reloadRulesIfChanged(t.Context())
	tail := c.rulesEvent().Tail
	var number, brought, bucket uint32
	c.node.View(func(s *clusterstate.State) {
		number, brought, bucket = s.Rules.Numbers["windows"], s.Rules.Numbers["brought"], s.Rules.Numbers["bucket"]
	})
	for rule, want := range map[uint32]time.Duration{1: 0, number: 2 * time.Hour, brought: budget.MaxTail, bucket: 0, 999: budget.MaxTail} {
		if got := tail(rule); got != want {
			t.Errorf("rule %d: %v, want %v", rule, got, want)
		}
	}
	c.apply(twoRules + `  - id: windows
    algorithm: fixed_window
    key: [api_key]
    params: {limit: 100, window: 60}
`)
	c.reloadRulesIfChanged(t.Context())
	ev := c.rulesEvent()
	if got := ev.Tail(number); got != 2*time.Hour || ev.Newest != ev.Version {
		t.Errorf("a region may still go by the rules before: %v; version %d, the newest is %d", got, ev.Version, ev.Newest)
	}
	change := cluster.RulesChange{FileName: "r.yaml", Author: "test", YAML: twoRules + `  - id: windows
    algorithm: fixed_window
    key: [api_key]
    params: {limit: 100, window: 86400}
`}
	staged, err := c.node.StageRules(c.t.Context(), change, cluster.Stage{Regions: []string{c.ledger.Config.Regions[0].Name}})
	if err != nil {
		t.Fatal(err)
	}
	c.reloadRulesIfChanged(t.Context())
	if ev := c.rulesEvent(); ev.Newest != staged || ev.Version == staged || ev.Tail(number) != 48*time.Hour {
		t.Errorf("version %d is staged: version %d, the newest is %d, a tail of %v", staged, ev.Version, ev.Newest, ev.Tail(number))
	}
	if _, err := c.node.EndRollout(t.Context(), staged, clusterstate.RolloutAborted, "test", "test"); err != nil {
		t.Fatal(err)
	}
	c.apply(twoRules)
	c.reloadRulesIfChanged(t.Context())
	if got := c.rulesEvent().Tail(number); got != budget.MaxTail {
		t.Errorf("a deleted rule: %v, want the longest", got)
	}
}

// proof waits for the outcome of the proof that the machine asked for.
func (c *loopTest) proof() error {
	c.t.Helper()
	select {
	case err := <-c.verified:
		return err
	case <-time.After(time.Minute):
		c.t.Fatal("no outcome")
		return nil
	}
}

// Each daemon counts its Hellos by itself, so two daemons of a region may say Hello under one number. The leader answers
// the later one, by what that daemon holds, and refuses the earlier one.
func TestEachDaemonHasTheAnswerToItsOwnHello(t *testing.T) {
	t.Parallel()
	c := newLoopTest(t)
	c.step(t.Context(), budget.Verified{})
	c.now += budget.Instant(time.Minute) // the session of the first daemon has ended
	c.step(t.Context(), budget.Tick{})
	answers := make([]chan reply, 2)
	for i := range answers {
		answers[i] = make(chan reply, 1)
		h := budget.Hello{Region: 0, Incarnation: uint64(21 + i), Nonce: 7, RedisEpoch: "n:r:1"}
		go func() {
			ok, err := c.Hello(t.Context(), h)
			answers[i] <- reply{welcome: ok, err: err}
		}()
		(<-c.inbox)(t.Context())
		c.now++
	}
	for range 2 { // the proof that began before the second Hello does not count for it
		c.verifyDone(t.Context(), c.proof())
	}
	if first := <-answers[0]; !errors.Is(first.err, budget.ErrSuperseded) {
		t.Errorf("the earlier daemon has the answer %+v", first)
	}
	if second := <-answers[1]; second.err != nil || second.welcome.Session == 0 {
		t.Errorf("the later daemon has the answer %+v", second)
	}
}

// A machine's question whether it still leads goes to raft: a node that leads again, in a later term, does not lead in the
// machine's, whose ledger another leader may have changed in between.
func TestAProofIsOfTheReignsOwnTerm(t *testing.T) {
	c := newLoopTest(t)
	c.execute(t.Context(), []budget.LeaderEffect{budget.Verify{}})
	if err := c.proof(); err != nil {
		t.Fatalf("no proof in its own term: %v", err)
	}
	c.term--
	c.execute(t.Context(), []budget.LeaderEffect{budget.Verify{}})
	err := c.proof()
	if !errors.As(err, new(cluster.ErrNotLeader)) {
		t.Fatalf("a proof for another term: %v", err)
	}
	c.verifyDone(t.Context(), err)
	if c.failed == nil {
		t.Error("the leader loop goes on without a proof")
	}
}

// TestASpentEpochIsFollowedByTheNext: when half of an epoch's generations are used the same
// node leads on with a new epoch, long before a region would have to refuse its shares.
func TestASpentEpochIsFollowedByTheNext(t *testing.T) {
	leadership := leadershipOfOne(t, boottime.Now)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { leadership.Run(ctx) })
	defer running.Wait()
	defer stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	loopAfter := func(epoch uint64) *Loop {
		for {
			select {
			case <-poll.C:
				if l := leadership.Current(); l != nil && l.epoch > epoch {
					return l
				}
			case <-limit:
				t.Fatalf("nobody leads after epoch %d", epoch)
			}
		}
	}
	first := loopAfter(0)
	if err := first.Query(ctx, func(m *budget.Leader, _ budget.Instant) { m.SpendGenerations(1 << 31) }); err != nil {
		t.Fatal(err)
	}
	second := loopAfter(first.epoch)
	if err := second.Query(ctx, func(m *budget.Leader, _ budget.Instant) {
		if m.EpochSpent() {
			t.Error("the new epoch is spent as well")
		}
	}); err != nil {
		t.Error(err)
	}
	if err := first.Query(ctx, func(*budget.Leader, budget.Instant) {}); err != ErrEpochSpent {
		t.Errorf("a caller of the old leader loop is told %v", err)
	}
}

// A promise counts on the slowest reports of the regions that are heard.
func TestConditionsHaveTheLongestReportInterval(t *testing.T) {
	t.Parallel()
	c := newLoopTest(t)
	for range 2 {
		c.report(0)
		c.report(1)
		c.do(c.plan())
		c.now = c.now.Add(time.Second)
		c.do(c.plan())
	}
	for region, keys := range []time.Duration{2 * time.Second, time.Second / 2} {
		c.latencies.answerSent(region, 0, 0, c.now)
		c.latencies.setReportInterval(region, keys)
	}
	if got := c.conditions(c.now); slices.Contains(got.Silent[:2], true) || got.ReportInterval != 2*time.Second {
		t.Errorf("%+v, want 2 s of two regions that are heard", got)
	}
}
