package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/claims"
	"aliquot/coordinator/internal/daemons"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	other = aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER
	you   = aliquotv1.FloorHolder_FLOOR_HOLDER_YOU
)

// helloTest is a Loop that the test drives, over a real node of one, with the service that takes
// Hellos. The sessions of the regions are long over.
type helloTest struct {
	*leader.Manual
	t       *testing.T
	now     budget.Instant
	node    *cluster.Node
	service leaseService
}

func newHelloTest(t *testing.T) *helloTest {
	t.Helper()
	h := &helloTest{t: t, now: 1, node: nodeOfOne(t)}
	ctx := t.Context()
	l := leader.New(h.node, func() budget.Instant { return h.now }, slog.New(slog.DiscardHandler), leader.NewMetrics(prometheus.NewRegistry()))
	var err error
	if h.Manual, err = l.Manual(ctx); err != nil {
		t.Fatal(err)
	}
	for region := range 2 {
		h.Step(ctx, budget.HelloReceived{Hello: budget.Hello{Region: region, Incarnation: 1, Nonce: 1, RedisEpoch: "n:r:1"}})
	}
	h.now = h.now.Add(20 * time.Millisecond) // the next tick
	h.Step(ctx, budget.Tick{})
	if err := h.Committed(ctx); err != nil {
		t.Fatalf("the regions' first store contents were not put on record: %v", err)
	}
	h.now = h.now.Add(time.Hour)
	h.service = leaseService{node: h.node, leadership: l, plans: &plan.Planner{}, daemons: &daemons.Seen{}, places: &places{node: h.node}}
	return h
}

// nodeOfOne is a cluster of one node, which leads, with the regions us and eu and one rule.
func nodeOfOne(t *testing.T) *cluster.Node {
	t.Helper()
	cfg := cluster.DefaultConfig()
	cfg.NodeID, cfg.DataDir, cfg.BootstrapExpect = "c1", t.TempDir(), 1
	cfg.RaftListen, cfg.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Regions, cfg.RulesYAML = []string{"us", "eu"}, "rules:\n  - {id: r1, key: [api_key], params: {capacity: 100, refill_rate: 10}}\n"
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
	select {
	case <-node.LeaderCh():
	case <-time.After(time.Minute):
		t.Fatal("no leader")
	}
	return node
}

// helloResult is the answer to a Hello, or its error.
type helloResult struct {
	*aliquotv1.HelloResponse
	err error
}

// TestAHelloWaitsForALeader: one that comes while nobody leads reaches the next leader as soon as
// there is one, and is refused after a second without.
func TestAHelloWaitsForALeader(t *testing.T) {
	h := newHelloTest(t)
	h.service.forward = &forwarder{node: h.node, self: "c1"}
	hello := func(t *testing.T) <-chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := h.service.Hello(t.Context(), &aliquotv1.HelloRequest{Region: "nowhere", Nonce: 1})
			answered <- err
		}()
		synctest.Wait()
		return answered
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := <-hello(t); connect.CodeOf(err) != connect.CodeUnavailable || time.Since(began) != leaderWait {
			t.Errorf("without a leader: %v after %v", err, time.Since(began))
		}
		answered := hello(t)
		h.Publish()
		if err := <-answered; connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("with a leader, which does not know the region: %v", err)
		}
	})
}

// sendHello sends a Hello of us. Without contents it is that of a daemon without a store.
func (h *helloTest) sendHello(ctx context.Context, incarnation uint64, contents string) <-chan helloResult {
	out := make(chan helloResult, 1)
	req := &aliquotv1.HelloRequest{Region: "us", Incarnation: incarnation, RedisEpoch: contents, Nonce: incarnation}
	go func() {
		res, err := h.service.hello(ctx, h.Loop, req)
		out <- helloResult{res, err}
	}()
	return out
}

// get waits for something that has to come.
func get[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come", what)
	}
	return got
}

// serve does what was posted to the loop.
func (h *helloTest) runPosted() {
	h.t.Helper()
	if err := h.RunPosted(h.t.Context()); err != nil {
		h.t.Fatalf("no work for the loop: %v", err)
	}
}

// expect waits for an answer without a session.
func (h *helloTest) expect(what string, answer <-chan helloResult, whose aliquotv1.FloorHolder) {
	h.t.Helper()
	got := get(h.t, what, answer)
	if got.err != nil || !got.GetBusy() || got.GetSession() != 0 || got.GetFloorHolder() != whose {
		h.t.Fatalf("%s: %v, %v; want %v", what, got.HelloResponse, got.err, whose)
	}
}

// expectFloor has a daemon without a store ask whose the floor is.
func (h *helloTest) expectFloor(what string, incarnation uint64, whose aliquotv1.FloorHolder) {
	h.t.Helper()
	answer := h.sendHello(h.t.Context(), incarnation, "")
	h.runPosted()
	h.expect(what, answer, whose)
}

// While a session is being opened for one daemon of a region, another one without a store is
// not told that the floor is its own.
func TestFloorIsWhoseSessionIsBeingOpened(t *testing.T) {
	h := newHelloTest(t)
	h.expectFloor("before anyone else came", 3, you)
	h.now = h.now.Add(claims.DaemonTimeout)
	opening := h.sendHello(t.Context(), 2, "n:r:1")
	h.runPosted()
	proof := get(t, "the proof of leadership", h.Proof())
	h.expectFloor("before the proof is told", 3, other)
	h.now = h.now.Add(claims.DaemonTimeout) // the proof took long
	h.expectFloor("long before the proof is told", 3, other)
	h.ProofDone(t.Context(), proof)
	if got := get(t, "the session", opening); got.err != nil || got.GetSession() == 0 {
		t.Fatalf("the session: %v, %v", got.HelloResponse, got.err)
	}
	h.expectFloor("beside the session", 3, other)
}

// A Hello that fails keeps the floor from nobody: the next one hears that it is its own.
func TestHelloThatFailsKeepsTheFloorFromNobody(t *testing.T) {
	h := newHelloTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	failing := h.sendHello(ctx, 2, "n:r:1")
	h.runPosted()
	cancel()
	if got := get(t, "the end of a Hello", failing); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("a Hello that nobody waits for: %v, %v", got.HelloResponse, got.err)
	}
	h.expectFloor("after it", 3, you)
}

// Who goes by the floor has been told of a daemon that asks for a session when the answer
// leaves, not when that was found out.
func TestWhatWasNotAnsweredIsNotTold(t *testing.T) {
	h := newHelloTest(t)
	h.expectFloor("at first", 3, you)
	h.expect("who asks for a session", h.sendHello(t.Context(), 2, "n:r:1"), other)
	if err := h.node.Shutdown(); err != nil { // nothing is proved any more
		t.Fatal(err)
	}
	unanswered := h.sendHello(t.Context(), 3, "")
	h.runPosted()
	if got := get(t, "the end of a Hello", unanswered); got.err == nil {
		t.Fatalf("answered without a proof of leadership: %v", got.HelloResponse)
	}
	if !h.service.claims.StartSession("us", 2, h.now) {
		t.Error("who asks for a session need not wait, though nobody was told")
	}
}

// TestNextDaemonOpensASessionOnceTheFirstHasLeft opens the second session in the instant in which the first ends.
func TestNextDaemonOpensASessionOnceTheFirstHasLeft(t *testing.T) {
	h := newHelloTest(t)
	h.expectFloor("without a store", 3, you)
	h.now = h.now.Add(claims.DaemonTimeout)
	open := func(incarnation uint64) helloResult {
		t.Helper()
		opening := h.sendHello(t.Context(), incarnation, "n:r:1")
		h.runPosted()
		select {
		case got := <-opening: // refused: nothing is to be proved
			return got
		case proof := <-h.Proof():
			h.ProofDone(t.Context(), proof)
		case <-time.After(time.Minute):
			t.Fatal("no proof of leadership")
		}
		return get(t, "the session", opening)
	}
	first := open(4)
	if first.err != nil || first.GetSession() == 0 {
		t.Fatalf("the first session: %v, %v", first.HelloResponse, first.err)
	}
	if err := h.EndSession(0, leader.SessionID{Epoch: first.GetEpoch(), Session: first.GetSession()}); err != nil {
		t.Fatal(err)
	}
	h.runPosted()
	if second := open(5); second.err != nil || second.GetSession() == 0 {
		t.Errorf("after the first has left: %v, %v", second.HelloResponse, second.err)
	}
}

// Nothing is told to a daemon without a session either unless the leadership is proved.
func TestADaemonWithoutASessionIsToldNothingWithoutAProof(t *testing.T) {
	h := newHelloTest(t)
	if _, err := h.service.answerWithoutSession(t.Context(), h.Loop, 0, &aliquotv1.HelloRequest{Region: "us"}); err != nil {
		t.Fatalf("by a leader: %v", err)
	}
	h.AddTerm(-1)
	if res, err := h.service.answerWithoutSession(t.Context(), h.Loop, 0, &aliquotv1.HelloRequest{Region: "us"}); !errors.As(err, new(cluster.ErrNotLeader)) {
		t.Errorf("by the leader of an earlier term: %v, %v", res, err)
	}
}

// A daemon that stops leaves its place in the region to the next one at once. One that stops without a
// session has no place to leave, and changes nothing of what another left.
func TestOnlyADaemonWithASessionLeavesItsPlace(t *testing.T) {
	t.Parallel()
	h := newHelloTest(t)
	h.Publish()
	leave := func(session uint64) {
		t.Helper()
		left := make(chan error, 1)
		go func() {
			res, err := h.service.Report(t.Context(), &aliquotv1.ReportRequest{Region: "us", Epoch: 5, Session: session, Leaving: true, Daemon: 7})
			left <- errors.Join(err, checkAnswer("", res)) // it may have been forwarded
		}()
		if err := h.RunPosted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-left; err != nil {
			t.Fatal(err)
		}
	}
	leave(0)
	if got, stopped := h.service.stopped.Last("us"); stopped {
		t.Errorf("without a session: %v", got)
	}
	leave(3)
	leave(0)
	if got, _ := h.service.stopped.Last("us"); got != (leader.SessionID{Epoch: 5, Session: 3}) {
		t.Errorf("after a session: %v", got)
	}
}
