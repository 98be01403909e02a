package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
)

func voter(id string) raft.Server {
	return raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress("at-" + id)}
}

func nonvoter(id string) raft.Server {
	s := voter(id)
	s.Suffrage = raft.Nonvoter
	return s
}

func TestCheckRemoval(t *testing.T) {
	with := func(servers []raft.Server, more ...raft.Server) []raft.Server { return slices.Concat(servers, more) }
	one := []raft.Server{voter("c1/a")}
	two := with(one, voter("c2/b"))
	three := with(two, voter("c3/c"))
	five := with(three, voter("c4/d"), voter("c5/e"))
	for name, c := range map[string]struct {
		servers []raft.Server
		remove  string
		silent  string // server ids that the leader, c1/a, does not hear
		going   string
		err     error
		says    []string
	}{
		"a follower":                 {servers: three, remove: "c3", going: "c3/c"},
		"the silent one":             {servers: three, remove: "c3", silent: "c3/c", going: "c3/c"},
		"a follower, another silent": {servers: three, remove: "c2", silent: "c3/c", err: ErrNotRemovable, says: []string{"c1, c3, of which 2", "does not hear c3", "data directories"}},
		"one of two":                 {servers: two, remove: "c2", silent: "c2/b", going: "c2/b"},
		"five, two silent":           {servers: five, remove: "c4", silent: "c4/d c5/e", going: "c4/d"},
		"five, two others silent":    {servers: five, remove: "c3", silent: "c4/d c5/e", err: ErrNotRemovable, says: []string{"of which 3", "hear c4, c5"}},
		"both instances":             {servers: with(three, nonvoter("c3/f")), remove: "c3", going: "c3/f c3/c"},
		"one without a vote":         {servers: with(three, nonvoter("c4/d")), remove: "c4", silent: "c4/d", going: "c4/d"},
		"votes alone are counted":    {servers: with(two, nonvoter("c4/d")), remove: "c4", silent: "c2/b", err: ErrNotRemovable, says: []string{"hear c2"}},
		"the leader":                 {servers: three, remove: "c1", err: ErrNotRemovable, says: []string{"stop its process", "another coordinator leads"}},
		"the leader of two":          {servers: two, remove: "c1", err: ErrNotRemovable, says: []string{"c2 alone", "join first"}},
		"the last voter":             {servers: with(one, nonvoter("c2/b")), remove: "c1", err: ErrNotRemovable, says: []string{"last voter"}},
		"nobody":                     {servers: three, remove: "c", err: ErrUnknownMember, says: []string{`"c"`, "c1, c2, c3"}},
	} {
		answers := func(id raft.ServerID) bool { return !strings.Contains(c.silent, string(id)) }
		going, err := checkRemoval(raft.Configuration{Servers: c.servers}, "c1/a", c.remove, ofNode(c.remove), answers)
		var ids []string
		for _, s := range going {
			ids = append(ids, string(s.ID))
		}
		if strings.Join(ids, " ") != c.going || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
		for _, part := range c.says {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in: %v", name, part, err)
			}
		}
	}
}

func TestRemoveMember(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	for _, n := range nodes {
		waitMember(t, n)
	}
	deposed := new(ErrNotLeader) // an answer that tells nothing, of a leader on a machine that stalls
	var gone *Node
	leader := l.asLeader(func(leader *Node) error {
		for _, n := range nodes {
			if _, listed := find(leader.configuration(), n.serverID); !listed {
				gone = n
				return nil // by an earlier leader, which did not hear that it was committed
			}
		}
		gone = follower(leader, nodes)
		if err := gone.RemoveMember(t.Context(), gone.NodeID()); !errors.As(err, deposed) {
			return fmt.Errorf("a follower removed a member: %w", cmp.Or(err, errors.New("nil")))
		}
		if err := leader.RemoveMember(t.Context(), "../c1"); !errors.Is(err, state.ErrInvalidArgument) {
			return fmt.Errorf("an impossible node id: %w", cmp.Or(err, errors.New("nil")))
		}
		if err := leader.RemoveMember(t.Context(), leader.NodeID()); !errors.Is(err, ErrNotRemovable) {
			return fmt.Errorf("the leader removed itself: %w", cmp.Or(err, errors.New("nil")))
		}
		return leader.RemoveMember(t.Context(), gone.NodeID())
	})
	if err := leader.RemoveMember(t.Context(), gone.NodeID()); !errors.Is(err, ErrUnknownMember) && !errors.As(err, deposed) {
		t.Errorf("removed a second time: %v", err)
	}
	if err := leader.Join(t.Context(), gone.NodeID(), gone.InstanceID(), gone.RaftAddress()); !errors.Is(err, ErrRemoved) && !errors.As(err, deposed) {
		t.Errorf("a removed server joined: %v", err)
	}
	waitRemoved(t, gone)
	c := l.stop(gone)
	again := l.start(c)
	waitRemoved(t, again)
	if got := len(leader.Status().Members); got != 2 {
		t.Errorf("%d members after the removed node started again", got)
	}
	c = l.stop(again)
	if err := os.RemoveAll(c.DataDir); err != nil {
		t.Fatal(err)
	}
	wiped := l.start(c)
	waitVoters(t, leader, 3)
	waitMember(t, wiped)
}

// Down when it was removed, a node comes back with a configuration that lists it,
// and no leader ever tells it otherwise.
func TestNodeThatWasDownWhenItWasRemovedNotices(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	gone := follower(leader, nodes)
	waitMember(t, gone)
	c := l.stop(gone)
	c.RaftMultiplier = 1 // it may be restless, and is to notice soon
	if err := leader.RemoveMember(t.Context(), c.NodeID); err != nil {
		t.Fatal(err)
	}
	term := leader.raft.CurrentTerm()
	back := l.start(c)
	if _, listed := find(back.configuration(), back.serverID); !listed {
		t.Fatal("the node knows already; this test is about one that does not")
	}
	waitRemoved(t, back)
	if leader.raft.State() != raft.Leader || leader.raft.CurrentTerm() != term || len(leader.Status().Members) != 2 {
		t.Errorf("the removed node disturbed the others: %+v", leader.Status())
	}
}

// From three voters to one, as far as it goes at each step.
func TestRemoveDownToTheLastVoter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	down := follower(leader, nodes)
	var other *Node
	for _, n := range nodes {
		if n != leader && n != down {
			other = n
		}
	}
	l.stop(down)
	for _, step := range []struct {
		remove *Node
		says   string // empty: it goes
	}{{other, "does not hear " + down.NodeID()}, {down, ""}, {leader, "alone could not elect"}, {other, ""}, {leader, "last voter"}} {
		err := leader.RemoveMember(t.Context(), step.remove.NodeID())
		if (err == nil) != (step.says == "") || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("remove %s: %v", step.remove.NodeID(), err)
		}
	}
	if _, err := leader.CreateEpoch(t.Context()); err != nil || len(leader.Status().Members) != 1 {
		t.Errorf("the last voter: %v, %+v", err, leader.Status().Members)
	}
}

// waitMember waits until the node knows, on disk, that it was a voter.
func waitMember(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, "the node to know itself a member", func() bool {
		data, err := os.ReadFile(filepath.Join(n.cfg.DataDir, identityFile))
		return err == nil && strings.Contains(string(data), `"member": true`)
	})
}

func waitRemoved(t *testing.T, n *Node) {
	t.Helper()
	select {
	case err := <-n.Failed():
		if !errors.Is(err, ErrRemoved) {
			t.Fatalf("failed with %v", err)
		}
	case <-time.After(forgottenTimeouts*n.cfg.electionTimeout() + patience):
		t.Fatal("the removed node did not notice")
	}
}

// waitVoters waits until the configuration is this many servers, all with a vote.
func waitVoters(t *testing.T, n *Node, want int) {
	t.Helper()
	eventually(t, "the voters", func() bool {
		voters := 0
		members := n.Status().Members
		for _, m := range members {
			if m.Suffrage == "voter" {
				voters++
			}
		}
		return voters == want && len(members) == want
	})
}

// A leader whose disk fails cannot tell whether the configuration that it was to store comes into force: the next leader
// may have it. What raft refuses before it has a place in the log does not.
func TestADiskErrorLeavesARemovalOpen(t *testing.T) {
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		b, c := a.peers[0].server, a.peers[1].server
		err := a.changeMembers(t.Context(), func() raft.IndexFuture { return a.raft.AddVoter(b.ID, c.Address, 0, configTimeout) })
		if err == nil || errors.Is(err, ErrUnknownOutcome) || !strings.Contains(err.Error(), "duplicate address") {
			t.Errorf("two servers at one address: %v", err)
		}
		full := errors.New("no space left on device")
		a.disk.err.Store(&full)
		if err := a.RemoveMember(t.Context(), "c"); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, full) {
			t.Errorf("the disk of the leader is full: %v", err)
		}
	})
}
