package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// reception is a court whose sessions are long over, with the service that takes Hellos.
type helloTest struct {
	*loopTest
	service leaseService
}

func newHelloTest(t *testing.T) *helloTest {
	c := newLoopTest(t)
	c.now = c.now.Add(time.Hour)
	return &helloTest{c, leaseService{node: c.node, leadership: c.leadership, plans: &planner{}}}
}

// said is what became of a Hello.
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
		h.leadership.loop.Store(h.leaderLoop)
		if err := <-answered; connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("with a leader, which does not know the region: %v", err)
		}
	})
}

// say says a Hello of us; without contents it is that of a daemon without a store.
func (h *helloTest) sendHello(ctx context.Context, incarnation uint64, contents string) <-chan helloResult {
	out := make(chan helloResult, 1)
	req := &aliquotv1.HelloRequest{Region: "us", Incarnation: incarnation, RedisEpoch: contents, Nonce: incarnation, Shard: h.ledger.Shard}
	go func() {
		res, err := h.service.hello(ctx, h.leaderLoop, req)
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
	get(h.t, "work for the loop", h.inbox)(h.t.Context())
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
	h.now = h.now.Add(daemonTimeout)
	opening := h.sendHello(t.Context(), 2, "n:r:1")
	h.runPosted()
	proof := get(t, "the proof of leadership", h.verified)
	h.expectFloor("before the proof is told", 3, other)
	h.now = h.now.Add(daemonTimeout) // the proof took long
	h.expectFloor("long before the proof is told", 3, other)
	h.verifyDone(t.Context(), proof)
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
	if !h.service.claims.startSession("us", 2, h.now) {
		t.Error("who asks for a session need not wait, though nobody was told")
	}
}

// Everything said of a Hello and of a daemon that leaves holds for a ledger of any shard.
func TestHelloToAnotherShard(t *testing.T) {
	h := newHelloTest(t)
	h.ledger.Shard = budget.Shards / 2
	h.expectFloor("without a store", 3, you)
	h.now = h.now.Add(daemonTimeout)
	open := func(incarnation uint64) helloResult {
		t.Helper()
		opening := h.sendHello(t.Context(), incarnation, "n:r:1")
		h.runPosted()
		select {
		case got := <-opening: // refused: nothing is to be proved
			return got
		case proof := <-h.verified:
			h.verifyDone(t.Context(), proof)
		case <-time.After(time.Minute):
			t.Fatal("no proof of leadership")
		}
		return get(t, "the session", opening)
	}
	first := open(4)
	if first.err != nil || first.GetSession() == 0 {
		t.Fatalf("the first session: %v, %v", first.HelloResponse, first.err)
	}
	if err := h.endSession(0, sessionID{first.GetEpoch(), first.GetSession()}); err != nil {
		t.Fatal(err)
	}
	h.runPosted()
	if second := open(5); second.err != nil || second.GetSession() == 0 {
		t.Errorf("after the first has left: %v, %v", second.HelloResponse, second.err)
	}
}
