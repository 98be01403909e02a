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
type reception struct {
	*court
	service leaseService
}

func newReception(t *testing.T) *reception {
	c := newCourt(t)
	c.now = c.now.Add(time.Hour)
	return &reception{c, leaseService{node: c.node, leadership: c.leadership, plans: &planBook{}}}
}

// said is what became of a Hello.
type said struct {
	*aliquotv1.HelloResponse
	err error
}

// TestAHelloWaitsForALeader: one that comes while nobody leads reaches the next leader as soon as
// there is one, and is refused after a second without.
func TestAHelloWaitsForALeader(t *testing.T) {
	r := newReception(t)
	r.service.forward = &forwarder{node: r.node, self: "c1"}
	hello := func(t *testing.T) <-chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := r.service.Hello(t.Context(), &aliquotv1.HelloRequest{Region: "nowhere", Nonce: 1})
			answered <- err
		}()
		synctest.Wait()
		return answered
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := <-hello(t); connect.CodeOf(err) != connect.CodeUnavailable || time.Since(began) != leaderPatience {
			t.Errorf("without a leader: %v after %v", err, time.Since(began))
		}
		answered := hello(t)
		r.leadership.reign.Store(r.reign)
		if err := <-answered; connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("with a leader, which does not know the region: %v", err)
		}
	})
}

// say says a Hello of us; without contents it is that of a daemon without a store.
func (r *reception) say(ctx context.Context, incarnation uint64, contents string) <-chan said {
	out := make(chan said, 1)
	req := &aliquotv1.HelloRequest{Region: "us", Incarnation: incarnation, RedisEpoch: contents, Nonce: incarnation, Shard: r.ledger.Shard}
	go func() {
		res, err := r.service.hello(ctx, r.reign, req)
		out <- said{res, err}
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
func (r *reception) serve() {
	r.t.Helper()
	get(r.t, "work for the loop", r.inbox)(r.t.Context())
}

// expect waits for an answer without a session.
func (r *reception) expect(what string, answer <-chan said, whose aliquotv1.FloorHolder) {
	r.t.Helper()
	got := get(r.t, what, answer)
	if got.err != nil || !got.GetBusy() || got.GetSession() != 0 || got.GetFloorHolder() != whose {
		r.t.Fatalf("%s: %v, %v; want %v", what, got.HelloResponse, got.err, whose)
	}
}

// expectFloor has a daemon without a store ask whose the floor is.
func (r *reception) expectFloor(what string, incarnation uint64, whose aliquotv1.FloorHolder) {
	r.t.Helper()
	answer := r.say(r.t.Context(), incarnation, "")
	r.serve()
	r.expect(what, answer, whose)
}

// While a session is being opened for one daemon of a region, another one without a store is
// not told that the floor is its own.
func TestFloorIsWhoseSessionIsBeingOpened(t *testing.T) {
	r := newReception(t)
	r.expectFloor("before anyone else came", 3, you)
	r.now = r.now.Add(heardFor)
	opening := r.say(t.Context(), 2, "n:r:1")
	r.serve()
	proof := get(t, "the proof of leadership", r.verified)
	r.expectFloor("before the proof is told", 3, other)
	r.now = r.now.Add(heardFor) // the proof took long
	r.expectFloor("long before the proof is told", 3, other)
	r.verifyDone(t.Context(), proof)
	if got := get(t, "the session", opening); got.err != nil || got.GetSession() == 0 {
		t.Fatalf("the session: %v, %v", got.HelloResponse, got.err)
	}
	r.expectFloor("beside the session", 3, other)
}

// A Hello that fails keeps the floor from nobody: the next one hears that it is its own.
func TestHelloThatFailsKeepsTheFloorFromNobody(t *testing.T) {
	r := newReception(t)
	ctx, cancel := context.WithCancel(t.Context())
	failing := r.say(ctx, 2, "n:r:1")
	r.serve()
	cancel()
	if got := get(t, "the end of a Hello", failing); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("a Hello that nobody waits for: %v, %v", got.HelloResponse, got.err)
	}
	r.expectFloor("after it", 3, you)
}

// Who goes by the floor has been told of a daemon that asks for a session when the answer
// leaves, not when that was found out.
func TestWhatWasNotAnsweredIsNotTold(t *testing.T) {
	r := newReception(t)
	r.expectFloor("at first", 3, you)
	r.expect("who asks for a session", r.say(t.Context(), 2, "n:r:1"), other)
	if err := r.node.Shutdown(); err != nil { // nothing is proved any more
		t.Fatal(err)
	}
	unanswered := r.say(t.Context(), 3, "")
	r.serve()
	if got := get(t, "the end of a Hello", unanswered); got.err == nil {
		t.Fatalf("answered without a proof of leadership: %v", got.HelloResponse)
	}
	if !r.service.claims.wants("us", 2, r.now) {
		t.Error("who asks for a session need not wait, though nobody was told")
	}
}

// Everything said of a Hello and of a daemon that leaves holds for a ledger of any shard.
func TestHelloToAnotherShard(t *testing.T) {
	r := newReception(t)
	r.ledger.Shard = budget.Shards / 2
	r.expectFloor("without a store", 3, you)
	r.now = r.now.Add(heardFor)
	open := func(incarnation uint64) said {
		t.Helper()
		opening := r.say(t.Context(), incarnation, "n:r:1")
		r.serve()
		select {
		case got := <-opening: // refused: nothing is to be proved
			return got
		case proof := <-r.verified:
			r.verifyDone(t.Context(), proof)
		case <-time.After(time.Minute):
			t.Fatal("no proof of leadership")
		}
		return get(t, "the session", opening)
	}
	first := open(4)
	if first.err != nil || first.GetSession() == 0 {
		t.Fatalf("the first session: %v, %v", first.HelloResponse, first.err)
	}
	if err := r.endSession(0, stream{first.GetEpoch(), first.GetSession()}); err != nil {
		t.Fatal(err)
	}
	r.serve()
	if second := open(5); second.err != nil || second.GetSession() == 0 {
		t.Errorf("after the first has left: %v, %v", second.HelloResponse, second.err)
	}
}
