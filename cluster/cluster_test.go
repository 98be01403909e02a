package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster/state"
	"aliquot/rules"
)

func TestThreeNodesBootstrapOneCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	for _, n := range nodes {
		eventually(t, "the same cluster everywhere", func() bool { return clusterOf(n) == clusterOf(leader) })
		if got := rulesVersion(n); got != 1 {
			t.Errorf("%s: rules version %d, want 1", n.NodeID(), got)
		}
		n.View(func(s *state.State) {
			if len(s.Ledger.Config.Regions) != 3 || s.HashSecret.IsZero() || s.Rules.Numbers["r1"] != 1 {
				t.Errorf("%s: bootstrap is incomplete: %d regions, numbers %v", n.NodeID(), len(s.Ledger.Config.Regions), s.Rules.Numbers)
			}
		})
	}
	select {
	case is := <-leader.LeaderCh():
		if !is {
			t.Error("the leader heard that it does not lead")
		}
	case <-time.After(patience):
		t.Error("the leader did not hear that it leads")
	}
	status := leader.Status()
	if status.State != "leader" || status.LeaderID != leader.NodeID() || len(status.Members) != 3 {
		t.Errorf("status of the leader: %+v", status)
	}
	other := follower(leader, nodes)
	eventually(t, "the leader's RPC address on a follower", func() bool {
		id, address := other.Leader()
		return id == leader.NodeID() && address == "rpc-"+leader.NodeID()
	})
	_, err := other.CreateEpoch(t.Context())
	var not ErrNotLeader
	if !errors.As(err, &not) || not.LeaderID != leader.NodeID() {
		t.Errorf("a follower proposed: %v", err)
	}
}

func TestLeaderKilledAnotherWithinFiveSeconds(t *testing.T) {
	l := newLab(t)
	nodes := l.three()
	l.leader(nodes...)
	var epoch uint64
	leader := l.asLeader(func(leader *Node) (err error) {
		if epoch, err = leader.CreateEpoch(t.Context()); err != nil {
			return err
		}
		return leader.CommitPlan(t.Context(), budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(1)}})
	})
	config := l.stop(leader)
	var minted uint64
	next := l.asLeader(func(next *Node) error {
		n, err := next.CreateEpoch(t.Context())
		minted = n
		return err
	})
	if minted <= epoch {
		t.Errorf("epoch %d after %d", minted, epoch)
	}
	if hotKeys(next) != 1 {
		t.Error("the next leader lost the ledger")
	}
	back := l.start(config)
	eventually(t, "the old leader to catch up", func() bool {
		got := uint64(0)
		back.View(func(s *state.State) { got = s.Ledger.Epoch })
		return got == minted && hotKeys(back) == 1
	})
}

func TestWholeClusterRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	leader := l.asLeader(func(leader *Node) error {
		if _, err := leader.ApplyRules(t.Context(), RulesChange{YAML: twoRules, FileName: "two.yaml", Author: "test"}); err != nil {
			return err
		}
		epoch, err := leader.CreateEpoch(t.Context())
		if err != nil {
			return err
		}
		return leader.CommitPlan(t.Context(), budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(1), third(2)}})
	})
	settled(t, leader, nodes...)
	cluster := clusterOf(leader)
	var before bytes.Buffer
	var err error
	leader.View(func(s *state.State) { err = state.WriteSnapshot(&before, s) })
	if err != nil {
		t.Fatal(err)
	}
	var again []*Node
	var configs []Config
	for _, n := range nodes {
		configs = append(configs, l.stop(n))
	}
	for _, c := range configs {
		c.Regions, c.RulesYAML = []string{"elsewhere"}, "" // flags no longer matter
		again = append(again, l.start(c))
	}
	next := l.leader(again...)
	eventually(t, "the state from before the restart", func() bool { // it is replayed once a leader is there
		var after bytes.Buffer
		next.View(func(s *state.State) { err = state.WriteSnapshot(&after, s) })
		return err == nil && clusterOf(next) == cluster && bytes.Equal(before.Bytes(), after.Bytes())
	})
}

func TestRestartFromSnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	epoch, err := n.CreateEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.CommitPlan(t.Context(), budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(1)}}); err != nil {
		t.Fatal(err)
	}
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err := n.CommitPlan(t.Context(), budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(2)}}); err != nil {
		t.Fatal(err)
	}
	again := l.start(l.stop(n))
	if hotKeys(again) < 1 { // more if it leads already
		t.Errorf("%d hot keys right after the start, want the snapshot's 1", hotKeys(again))
	}
	l.leader(again)
	eventually(t, "the log after the snapshot", func() bool { return hotKeys(again) == 2 })
}

func TestDamagedSnapshotRefusesToStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c := l.stop(n)
	states, err := filepath.Glob(filepath.Join(c.DataDir, "snapshots", "*", "state.bin"))
	if err != nil || len(states) != 1 {
		t.Fatalf("snapshots: %v, %v", states, err)
	}
	data, err := os.ReadFile(states[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(states[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(t.Context(), c); err == nil {
		t.Errorf("started from a damaged snapshot (shutdown: %v)", n.Shutdown())
	} else if !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("the error does not name the snapshot: %v", err)
	}
}

func TestFollowerCatchesUpBySnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	lagging := l.stop(follower(l.leader(nodes...), nodes))
	for i := range 20 {
		eventually(t, "a commit", func() bool { return l.commitKey(t.Context(), i) == nil })
	}
	for _, n := range l.all() { // either may lead when the third comes back
		eventually(t, "all of the log", func() bool { return hotKeys(n) == 20 })
		keepTrailing(t, n, 1)
		if err := n.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	back := l.start(lagging)
	eventually(t, "the snapshot on the lagging node", func() bool { return hotKeys(back) == 20 })
}

func TestRulesCompareAndSet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	one, zero := uint64(1), uint64(0)
	if _, err := n.ApplyRules(t.Context(), RulesChange{YAML: twoRules, FileName: "f.yaml", Expected: &zero, Author: "a"}); !errors.Is(err, state.ErrVersionConflict{Expected: 0, InForce: 1}) {
		t.Errorf("stale expectation: %v", err)
	}
	changed := n.Changed()
	version, err := n.ApplyRules(t.Context(), RulesChange{YAML: twoRules, FileName: "f.yaml", Expected: &one, Author: "a"})
	if err != nil || version != 2 {
		t.Fatalf("version %d, %v", version, err)
	}
	select {
	case <-changed:
	case <-time.After(patience):
		t.Error("the change was not announced")
	}
	_, err = n.ApplyRules(t.Context(), RulesChange{YAML: "rules:\n  - id: r1\n    capcity: 3\n", FileName: "bad.yaml", Author: "a"})
	var refused *rules.Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "bad.yaml:3:5") {
		t.Errorf("bad rules: %v", err)
	}
	if got := rulesVersion(n); got != 2 {
		t.Errorf("version %d after refused rules, want 2", got)
	}
}

func TestFourthNodeJoins(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.start(l.config("c1"))
	l.leader(first)
	c := l.config("c4")
	c.BootstrapExpect, c.Regions, c.RulesYAML = 0, nil, ""
	c.Join = []string{first.GossipAddress()}
	second := l.start(c)
	eventually(t, "the new voter", func() bool {
		// Either may lead by then.
		return len(first.Status().Members) == 2 && second.Status().State != "starting" && clusterOf(second) == clusterOf(first)
	})
}

func TestNodeComesBackAtAnotherAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	leader := l.leader(nodes...)
	c := l.stop(follower(leader, nodes))
	c.RaftListen, c.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
	moved := l.start(c)
	eventually(t, "the new address in the configuration", func() bool {
		s, ok := find(leader.configuration(), moved.serverID)
		return ok && string(s.Address) == moved.RaftAddress() && s.Suffrage == raft.Voter
	})
}

func TestDataDirectoryOfAnotherNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	c := l.stop(n)
	c.NodeID = "c9"
	_, err := Start(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), `"c1"`) || !strings.Contains(err.Error(), `"c9"`) {
		t.Errorf("the error must name both ids: %v", err)
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	for name, change := range map[string]func(*Config){
		"--data-dir":      func(c *Config) { c.DataDir = n.cfg.DataDir; c.NodeID = "c1" },
		"--raft-listen":   func(c *Config) { c.RaftListen = n.RaftAddress() },
		"--gossip-listen": func(c *Config) { c.GossipListen = n.GossipAddress() },
	} {
		c := l.config("c2")
		change(&c)
		other, err := Start(t.Context(), c)
		if err == nil {
			t.Errorf("%s in use, and a node started (shutdown: %v)", name, other.Shutdown())
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("the error must name %s: %v", name, err)
		}
	}
}

func TestBadFirstBoot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for want, change := range map[string]func(*Config){
		"--regions is empty":   func(c *Config) { c.Regions = nil },
		"rules.yaml:":          func(c *Config) { c.RulesYAML = "rules: 3\n" },
		"--bootstrap-expect 0": func(c *Config) { c.BootstrapExpect = 0 },
		"--insecure":           func(c *Config) { c.RaftListen = "10.1.2.3:7401" },
	} {
		c := l.config("c1")
		change(&c)
		n, err := Start(t.Context(), c)
		if err == nil {
			t.Errorf("%s: started (shutdown: %v)", want, n.Shutdown())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
}

// TestNothingIsProposedWhenTheTimeIsOver: a caller who is told that nothing changed must not find it changed later.
func TestNothingIsProposedWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start(l.config("c1")))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.CreateEpoch(over); !errors.Is(err, ErrNotProposed) || !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a command after the caller's time: %v", err)
	}
	if epoch, err := n.CreateEpoch(t.Context()); err != nil || epoch != 1 {
		t.Errorf("the first command made epoch %d, %v; want 1", epoch, err)
	}
}

// TestABarrierThatEndsEarlyChangedNothing: it proposes no change, so nobody need look whether there was one.
func TestABarrierThatEndsEarlyChangedNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start(l.config("c1")))
	settled(t, n)
	over, cancel := context.WithCancel(t.Context())
	minted := make(chan error, 1)
	n.View(func(*state.State) { // the state machine cannot apply meanwhile
		written := n.raft.LastIndex()
		go func() {
			_, err := n.CreateEpoch(t.Context())
			minted <- err
		}()
		eventually(t, "the command in the log", func() bool { return n.raft.LastIndex() > written })
		cancel()
		if err := n.Barrier(over); !errors.Is(err, ErrNotProposed) || !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a barrier that the caller did not wait for: %v", err)
		}
	})
	if err := <-minted; err != nil {
		t.Error(err)
	}
}

func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start(l.config("c1")))
	settled(t, n)
	release := make(chan struct{})
	reading := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		n.View(func(*state.State) {
			close(reading)
			<-release // the state machine cannot apply meanwhile
		})
	})
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	written, minted := n.raft.LastIndex(), make(chan error, 1)
	go func() {
		_, err := n.CreateEpoch(ctx)
		minted <- err
	}()
	eventually(t, "the command in the log", func() bool { return mintedAfter(t, n, written) })
	cancel()
	err := <-minted
	close(release)
	reader.Wait()
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that ended before the command did: %v", err)
	}
	eventually(t, "the command, which was never withdrawn", func() bool {
		epoch := uint64(0)
		n.View(func(s *state.State) { epoch = s.Ledger.Epoch })
		return epoch == 1
	})
	l.stop(n)
	if _, err := n.CreateEpoch(t.Context()); err == nil {
		t.Error("a node that was shut down committed")
	}
}

// mintedAfter reports whether a command that creates an epoch follows an entry of the log: an idle leader writes entries
// of its own.
func mintedAfter(t *testing.T, n *Node, index uint64) bool {
	t.Helper()
	for at := index + 1; at <= n.raft.LastIndex(); at++ {
		var entry raft.Log
		if err := n.logs.GetLog(at, &entry); err != nil {
			t.Fatal(err)
		}
		if cmd, err := state.DecodeCommand(entry.Data); err == nil && cmd.GetMintEpoch() != nil {
			return true
		}
	}
	return false
}

func TestMetricsAndRestartInOneRegistry(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	registry := prometheus.NewPedanticRegistry()
	c := l.config("c1")
	c.Registerer = registry
	n := l.start(c)
	l.leader(n)
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	n = l.start(l.stop(n))
	l.leader(n)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		seen[f.GetName()] = true
	}
	for _, name := range []string{"state", "term", "applied_index", "commit_index", "last_contact_seconds", "apply_seconds", "snapshot_seconds", "snapshot_bytes", "refused_total"} {
		if !seen["aliquot_raft_"+name] {
			t.Errorf("aliquot_raft_%s is missing", name)
		}
	}
}

// A fresh node behind a predecessor's address must not be taken for it.
func TestRaftConnectionForAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	for greeting, accepted := range map[string]bool{
		fmt.Sprintf("%s%c%s%c%s", "AQR2", len(n.serverID), n.serverID, len(n.clusterID()), n.clusterID()): true,
		fmt.Sprintf("%s%c%s\x00", "AQR2", len(n.serverID), n.serverID):                                    true,
		fmt.Sprintf("%s%c%s", "AQR1", len(n.serverID), n.serverID):                                        true,
		fmt.Sprintf("%s%c%s\x05other", "AQR2", len(n.serverID), n.serverID):                               false,
		"AQR2" + "\x0bc1/00000000\x00":                                                                    false,
		"GET / HTTP/1.1\r\n\r\n":                                                                          false,
	} {
		conn, err := net.Dial("tcp", n.RaftAddress())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(greeting)); err != nil {
			t.Fatal(err)
		}
		wait := patience // it is to be closed
		if accepted {
			wait = 300 * time.Millisecond
		}
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Read(make([]byte, 1))
		var timeout net.Error
		stillOpen := errors.As(err, &timeout) && timeout.Timeout()
		if stillOpen != accepted {
			t.Errorf("greeting %q: open %v, want %v (%v)", greeting, stillOpen, accepted, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}
