package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/budget"
	"aliquot/cluster/state"
	"aliquot/internal/testaddr"
)

const testRules = `rules:
  - id: r1
    match: {api_key_pattern: "*"}
    params: {capacity: 100, refill_rate: 10}
`

const twoRules = testRules + `  - id: r2
    match: {api_key_pattern: "*"}
    params: {capacity: 50, refill_rate: 5}
`

// lab holds the nodes of one test and stands in for the RPC between them.
type lab struct {
	t     testing.TB
	mu    sync.Mutex
	nodes map[string]*Node // by RPC address
	dir   string
	seeds []string // gossip addresses for restarts
	slow  bool     // leaders are to stay, for what cannot be asked of another one
}

func newLab(t testing.TB) *lab {
	// The directory first: cleanups run in reverse, and the nodes must end before it goes.
	l := &lab{t: t, dir: t.TempDir(), nodes: map[string]*Node{}}
	t.Cleanup(func() {
		for _, n := range l.all() {
			if err := n.Shutdown(); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		}
	})
	return l
}

func (l *lab) all() []*Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*Node
	for _, n := range l.nodes {
		out = append(out, n)
	}
	return out
}

// config is a node's, with ports of its own.
func (l *lab) config(id string) Config {
	l.t.Helper()
	c := DefaultConfig()
	c.NodeID = id
	c.DataDir = filepath.Join(l.dir, id)
	c.RaftListen = testaddr.Free()
	c.GossipListen = c.RaftListen
	c.RPCAddress = "rpc-" + id
	if l.slow {
		c.RaftMultiplier = maxRaftMultiplier
	}
	c.BootstrapExpect = 1
	c.Regions = []string{"us", "eu", "ap"}
	c.RulesYAML = testRules
	c.JoinFunc = l.join
	c.Logger = testLogger()
	return c
}

func testLogger() *slog.Logger {
	level := slog.LevelError + 4
	if os.Getenv("ALIQUOT_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// join does what the coordinators' RPC does: serve on the leader, forward elsewhere.
func (l *lab) join(ctx context.Context, rpc, nodeID, instance, raftAddr string) error {
	for range 3 {
		l.mu.Lock()
		n := l.nodes[rpc]
		l.mu.Unlock()
		if n == nil {
			return fmt.Errorf("nobody at %q", rpc)
		}
		err := n.Join(ctx, nodeID, instance, raftAddr)
		var not ErrNotLeader
		if !errors.As(err, &not) || not.RPCAddress == "" {
			return err
		}
		rpc = not.RPCAddress
	}
	return errors.New("too many hops")
}

func (l *lab) start(c Config) *Node {
	l.t.Helper()
	n, err := Start(l.t.Context(), c)
	if err != nil {
		l.t.Fatalf("start %s: %v", c.NodeID, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[c.RPCAddress] = n
	return n
}

// stop shuts a node down and returns a configuration that starts it again in the
// same place.
func (l *lab) stop(n *Node) Config {
	l.t.Helper()
	c := n.cfg
	c.Logger = testLogger()
	c.RaftListen, c.GossipListen = n.RaftAddress(), n.GossipAddress()
	l.mu.Lock()
	delete(l.nodes, c.RPCAddress)
	if l.seeds != nil {
		c.Join = l.seeds
	}
	l.mu.Unlock()
	if err := n.Shutdown(); err != nil {
		l.t.Fatalf("shutdown %s: %v", c.NodeID, err)
	}
	return c
}

// three starts a cluster of three that bootstraps together.
func (l *lab) three() []*Node {
	l.t.Helper()
	var nodes []*Node
	var seeds []string
	for _, id := range []string{"c1", "c2", "c3"} {
		c := l.config(id)
		c.BootstrapExpect = 3
		c.Join = seeds
		if id == "c1" {
			c.Join = []string{"127.0.0.1:1"} // nobody: the first must wait for the others
		}
		n := l.start(c)
		seeds = append(seeds, n.GossipAddress())
		nodes = append(nodes, n)
	}
	l.mu.Lock()
	l.seeds = seeds
	l.mu.Unlock()
	return nodes
}

// leader waits until one of the nodes leads with its identity established.
func (l *lab) leader(nodes ...*Node) *Node {
	l.t.Helper()
	var leader *Node
	eventually(l.t, "a leader", func() bool {
		for _, n := range nodes {
			if n.raft.State() == raft.Leader && clusterOf(n) != "" {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// asLeader has the leader do something, and the next leader if it lost its leadership meanwhile, as
// on a machine that stalls. It returns who did it.
func (l *lab) asLeader(do func(leader *Node) error) (leader *Node) {
	l.t.Helper()
	eventually(l.t, "a leader that stays", func() bool {
		leader = l.leader(l.all()...)
		term := leader.raft.CurrentTerm()
		err := do(leader)
		if err != nil && leader.raft.State() == raft.Leader && leader.raft.CurrentTerm() == term {
			l.t.Fatal(err)
		}
		return err == nil
	})
	return leader
}

func clusterOf(n *Node) (id string) {
	n.View(func(s *state.State) { id = s.ClusterID })
	return id
}

func rulesVersion(n *Node) (v uint64) {
	n.View(func(s *state.State) { v = s.Rules.Version })
	return v
}

func hotKeys(n *Node) (k int) {
	n.View(func(s *state.State) { k = s.Ledger.Len() })
	return k
}

func follower(leader *Node, nodes []*Node) *Node {
	for _, n := range nodes {
		if n != leader {
			return n
		}
	}
	return nil
}

// patience is how long a test waits for something that should come in a few seconds: a test
// fails when it hangs, however slow its machine is.
const patience = 5 * time.Minute

// eventually polls cond until it holds or the time is up.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
	}
}

// key is a hot key of rule r1.
func key(i int) budget.KeyID {
	return budget.KeyID{Rule: 1, Hash: [16]byte{byte(i >> 8), byte(i)}}
}

// third is an even plan for one key over three regions.
func third(i int) budget.Entry {
	s := budget.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 4}
	return budget.Entry{Key: key(i), Shares: []budget.Share{s, s, s}}
}
