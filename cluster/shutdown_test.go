package cluster

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/cluster/state"
)

// A leader that is stopped while it sends a snapshot to a peer that hangs does not
// wait for it: raft gives such an exchange five seconds for each 256 KiB.
func TestShutdownDoesNotWaitForAHungPeer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	epoch, err := n.CreateEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var plan budget.Plan
	for i := range 60_000 { // a snapshot of more than what sockets buffer
		plan.Changes = append(plan.Changes, third(i))
	}
	plan.Epoch = epoch
	if err := n.CommitPlan(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never reads
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	joined := make(chan error, 1)
	go func() { joined <- n.Join(ctx, "c9", "00000009", hung.Addr().String()) }()
	conn, err := hung.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var data bytes.Buffer
	n.View(func(s *state.State) { err = state.WriteSnapshot(&data, s) })
	ruledOut := time.Duration(data.Len()>>18) * 5 * time.Second
	if err != nil || ruledOut < 40*time.Second {
		t.Fatalf("the wait that is ruled out is of %s only (%v)", ruledOut, err)
	}
	began := time.Now()
	l.stop(n)
	if took := time.Since(began); took >= ruledOut {
		t.Errorf("the shutdown took %s, as long as the peer hangs", took)
	}
	select {
	case err := <-joined:
		if err == nil {
			t.Error("a peer that hangs joined")
		}
	case <-time.After(patience):
		t.Error("the join outlives the node")
	}
}
