package coordinator

import (
	"errors"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

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
		t.Error("the reign goes on without a proof")
	}
}

// Nothing is told to a daemon without a session either unless the leadership is proved.
func TestADaemonWithoutASessionIsToldNothingWithoutAProof(t *testing.T) {
	h := newHelloTest(t)
	if _, err := h.service.answerWithoutSession(t.Context(), h.leaderLoop, 0, &aliquotv1.HelloRequest{Region: "us"}); err != nil {
		t.Fatalf("by a leader: %v", err)
	}
	h.leaderLoop.term--
	if res, err := h.service.answerWithoutSession(t.Context(), h.leaderLoop, 0, &aliquotv1.HelloRequest{Region: "us"}); !errors.As(err, new(cluster.ErrNotLeader)) {
		t.Errorf("by the leader of an earlier term: %v, %v", res, err)
	}
}
