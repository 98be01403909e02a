package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/raftnet"
)

// fastPath takes the mitigation of issue 695 away: heartbeats are handled on the
// transport's goroutine, as raft means it.
type fastPath struct{ *raftnet.Transport }

func (f fastPath) SetHeartbeatHandler(handle func(raft.RPC)) {
	f.NetworkTransport.SetHeartbeatHandler(handle)
}

// hashicorp/raft issue 695. A leads term 2 and waits for work; B was elected for
// term 3 by C. B's first heartbeat and a command of a client reach A, in this order.
// On the fast path the heartbeat raises A's term behind the back of A's main
// goroutine, which waits in a select that it entered as leader: it takes the command
// and writes it as an entry of term 3, which B leads. B has an entry of its own
// there. Terms and indexes agree, so A takes what B sends next, and applies another
// command than everybody else: two regions would be told that they own the same
// share.
func TestHeartbeatOfANewLeaderMeetsACommand(t *testing.T) {
	for name, mitigated := range map[string]bool{"without our mitigation": false, "with it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { meet(t, mitigated) })
		})
	}
}

func meet(t *testing.T, mitigated bool) {
	net := newWires()
	b := newPuppet(t, net.listen("b"), "b/00000002")
	c := newPuppet(t, net.listen("c"), "c/00000003")
	self := raft.Server{ID: "a/00000001", Address: "a"}
	trans := newTransport(net.listen("a"))
	var given raft.Transport = trans
	if !mitigated {
		given = fastPath{trans}
	}
	rc, store, snaps, fsm := quietRaft(self.ID), raft.NewInmemStore(), raft.NewInmemSnapshotStore(), &recorder{}
	if err := raft.BootstrapCluster(rc, store, store, snaps, given, raft.Configuration{Servers: []raft.Server{self, b.server, c.server}}); err != nil {
		t.Fatal(err)
	}
	a, err := raft.NewRaft(rc, fsm, store, store, snaps, given)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		b.stop()
		c.stop()
	}()
	// A stands for election at once, instead of in an hour.
	if err := b.TimeoutNow(self.ID, self.Address, &raft.TimeoutNowRequest{RPCHeader: b.header()}, &raft.TimeoutNowResponse{}); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // of virtual time: the first entry of A is committed and all is quiet
	led := a.CurrentTerm()
	if a.State() != raft.Leader || a.AppliedIndex() != a.LastIndex() {
		t.Fatalf("A is %s in term %d", a.State(), led)
	}
	b.beat(self, led+1)
	synctest.Wait() // A's goroutines are where the heartbeat left them
	outcome := a.Apply([]byte("A's command"), 0).Error()

	var last raft.Log
	if err := store.GetLog(a.LastIndex(), &last); err != nil {
		t.Fatal(err)
	}
	forged := last.Term > led
	if forged == mitigated {
		t.Errorf("A, which led term %d, ends its log with entry %d of term %d (%q); the command ended with: %v", led, last.Index, last.Term, last.Data, outcome)
	}
	if mitigated {
		return
	}
	// B's entry at that index is another one, and committed: A applies its own.
	b.appendTo(self, led+1, raft.Log{Index: last.Index, Term: led + 1}, last.Index+1, command(last.Index+1, led+1, "B's second command"))
	synctest.Wait()
	if got := fsm.applied; len(got) != 2 || got[0] != "A's command" {
		t.Errorf("A applied %q; this test no longer shows what the issue is about", got)
	}
}
