package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/budget"
	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

// loadEvery paces the commits of underLoad, a few for each disk write.
const loadEvery = 5 * time.Millisecond

// underLoad commits one key after the other through the leader until stop is
// called, which returns how many were acknowledged. Key i is the i-th.
func (l *lab) underLoad() (stop func() int) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var writer sync.WaitGroup
	acknowledged := 0
	writer.Go(func() {
		tick := time.NewTicker(loadEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if l.commitKey(ctx, acknowledged) == nil {
				acknowledged++
			}
		}
	})
	return func() int {
		cancel()
		writer.Wait()
		return acknowledged
	}
}

// commitKey commits the i-th key; after an error it may be in force.
func (l *lab) commitKey(ctx context.Context, i int) error {
	for _, n := range l.all() {
		if n.raft.State() != raft.Leader {
			continue
		}
		epoch := uint64(0)
		n.View(func(s *state.State) { epoch = s.Ledger.Epoch })
		if epoch == 0 {
			_, err := n.CreateEpoch(ctx)
			return errors.Join(err, errors.New("minted, not committed"))
		}
		return n.CommitPlan(ctx, budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(i)}})
	}
	return errors.New("nobody leads")
}

// sameKeys waits until every node has what was acknowledged, and no more than the
// one command that was under way.
func sameKeys(t *testing.T, acknowledged int, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, n.NodeID()+" to have what was acknowledged", func() bool {
			got := hotKeys(n)
			return got == acknowledged || got == acknowledged+1
		})
	}
}

// A node that lost its disk comes back while the leader goes on committing: a voter
// again without a command, its older instance gone, nothing missing.
func TestWipedNodeJoinsUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	leader := l.leader(nodes...)
	victim := follower(leader, nodes)
	stop := l.underLoad()
	eventually(t, "some load", func() bool { return hotKeys(leader) > 20 })
	for _, where := range []string{"same address", "other address"} {
		old, before := victim.serverID, hotKeys(leader)
		c := l.stop(victim)
		if err := os.RemoveAll(c.DataDir); err != nil {
			t.Fatal(err)
		}
		if where == "other address" {
			c.RaftListen, c.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
		}
		victim = l.start(c)
		if victim.serverID == old {
			t.Fatal("a wiped node kept its instance id")
		}
		waitMember(t, victim)
		leader = l.leader(l.all()...)
		waitVoters(t, leader, 3)
		if _, listed := find(leader.configuration(), old); listed {
			t.Errorf("%s: the older instance is still a member", where)
		}
		eventually(t, where+": a commit meanwhile", func() bool { return hotKeys(leader) > before })
	}
	sameKeys(t, stop(), l.all()...)
}

// Two nodes that nobody expected come late, at the same time and under load, and
// their votes count.
func TestFourthAndFifthNodeJoinUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	l.leader(nodes...)
	stop := l.underLoad()
	var late []*Node
	for _, id := range []string{"c4", "c5"} {
		c := l.config(id)
		c.BootstrapExpect, c.Regions, c.RulesYAML, c.Join = 0, nil, "", l.seeds
		late = append(late, l.start(c))
	}
	for _, n := range late {
		waitMember(t, n)
	}
	leader := l.leader(l.all()...)
	waitVoters(t, leader, 5)
	sameKeys(t, stop(), l.all()...)
	// Of five, two may go; a majority is not there without the late ones.
	gone := 0
	for _, n := range nodes {
		if n != leader && gone < 2 {
			l.stop(n)
			gone++
		}
	}
	eventually(t, "a commit with the late votes", func() bool {
		_, err := l.leader(l.all()...).CreateEpoch(t.Context())
		return err == nil
	})
}

// A joiner that was added without a vote, and then ended before it was promoted,
// goes on from there when it comes back.
func TestJoinerThatEndsBeforeItsPromotion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	leader := l.leader(nodes...)
	c := l.config("c4")
	c.BootstrapExpect, c.Regions, c.RulesYAML, c.Join = 0, nil, "", l.seeds
	c.JoinFunc = func(ctx context.Context, _, nodeID, instance, address string) error {
		for _, n := range nodes {
			if n.raft.State() == raft.Leader {
				_, err := n.admit(ctx, raft.Server{ID: gossip.ServerID(nodeID, instance), Address: raft.ServerAddress(address)})
				return errors.Join(err, errors.New("the leader went no further"))
			}
		}
		return errors.New("nobody leads")
	}
	joiner := l.start(c)
	without := func(n *Node) bool {
		s, listed := find(leader.configuration(), n.serverID)
		return listed && s.Suffrage == raft.Nonvoter
	}
	eventually(t, "the log on the joiner", func() bool { return without(joiner) && clusterOf(joiner) == clusterOf(leader) })
	id := joiner.serverID
	c = l.stop(joiner)
	if !without(joiner) {
		t.Fatal("it was promoted while it was down")
	}
	c.JoinFunc = l.join
	joiner = l.start(c)
	if joiner.serverID != id {
		t.Fatal("it came back as another instance")
	}
	waitVoters(t, leader, 4)
	waitMember(t, joiner)
}

// A leader that ends between a node's promotion and the removal of its older instance leaves a voter that no longer
// exists. The node itself asks for the rest.
func TestAnOlderInstanceThatWasLeftIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	victim := follower(l.leader(nodes...), nodes)
	c := l.stop(victim)
	if err := os.RemoveAll(c.DataDir); err != nil {
		t.Fatal(err)
	}
	c.RaftListen, c.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
	var promoted atomic.Bool
	c.JoinFunc = func(ctx context.Context, rpc, nodeID, instance, address string) error {
		if promoted.Load() {
			return l.join(ctx, rpc, nodeID, instance, address)
		}
		joiner := raft.Server{ID: gossip.ServerID(nodeID, instance), Address: raft.ServerAddress(address)}
		for _, n := range l.all() {
			if n.raft.State() != raft.Leader {
				continue
			}
			if _, err := n.admit(ctx, joiner); err != nil {
				return err
			}
			if err := n.waitCaughtUp(ctx, joiner.ID); err != nil {
				return err
			}
			promoted.Store(n.raft.AddVoter(joiner.ID, joiner.Address, 0, configTimeout).Error() == nil)
			return errors.New("the leader went no further")
		}
		return errors.New("nobody leads")
	}
	wiped := l.start(c)
	waitMember(t, wiped)
	waitVoters(t, wiped, 3)
	if _, listed := find(wiped.configuration(), victim.serverID); listed {
		t.Error("the older instance is still a member")
	}
}

// silentServer says at its Raft address who it is, and answers nothing else.
func silentServer(t *testing.T, nodeID, instance, listen string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	layer := newLayer(l, gossip.ServerID(nodeID, instance), func() ([]byte, error) {
		return gossip.Meta{Role: gossip.RoleCoordinator, NodeID: nodeID, InstanceID: instance, Raft: address}.Encode()
	})
	t.Cleanup(func() {
		if err := layer.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		for {
			conn, err := layer.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	return address
}

// A joiner that never catches up neither keeps an operator from removing it nor
// comes back by itself.
func TestJoinerThatNeverCatchesUpCanBeRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	joined := make(chan error, 1)
	address := silentServer(t, "c9", "00000009", "127.0.0.1:0")
	go func() { joined <- n.Join(t.Context(), "c9", "00000009", address) }()
	eventually(t, "the joiner to be listed", func() bool { return len(n.Status().Members) == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), catchUpTimeout/2)
	defer cancel()
	if err := n.RemoveMember(ctx, "c9"); err != nil {
		t.Errorf("remove a joiner under way: %v", err)
	}
	select {
	case err := <-joined:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("the join ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the join goes on")
	}
	if err := n.Join(t.Context(), "c1", "00000009", n.RaftAddress()); !errors.Is(err, ErrNotThere) {
		t.Errorf("a join that would have removed the leader: %v", err)
	}
}
