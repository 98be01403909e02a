package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// maxPeers bounds the table of what gossip said: a cluster has at most nine voters
// and a few dozen regional daemons; the rest is churn.
const maxPeers = 256

// roleCoordinator marks the members that can be voters; others may gossip too.
const roleCoordinator = "coordinator"

// meta is what each node tells all others by gossip, at most 512 bytes of JSON. It
// is a hint for everything but the first bootstrap.
type meta struct {
	Role       string `json:"r"`
	NodeID     string `json:"n"`
	InstanceID string `json:"i"`
	Raft       string `json:"a"`
	RPC        string `json:"p,omitempty"`
	// Expect is the node's --bootstrap-expect.
	Expect int `json:"e,omitempty"`
	// Bootstrapped: the node has a Raft configuration.
	Bootstrapped bool   `json:"b,omitempty"`
	Leader       bool   `json:"l,omitempty"`
	Cluster      string `json:"c,omitempty"`
	// View is a digest of the nodes this one would bootstrap with; empty: not ready.
	View string `json:"v,omitempty"`
}

func (m meta) serverID() raft.ServerID { return serverID(m.NodeID, m.InstanceID) }

func (m meta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode gossip meta: %w", err)
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the node id and the advertised addresses make %d bytes of gossip meta, at most %d: use a shorter --node-id or --advertise", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

var instancePattern = regexp.MustCompile(`^[0-9a-f]{8}$`)

// decodeMeta refuses what cannot be a member of this product.
func decodeMeta(b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return meta{}, fmt.Errorf("it gossips no readable meta: %w", err)
	}
	if m.Role != roleCoordinator {
		return m, nil
	}
	if !nodeIDPattern.MatchString(m.NodeID) || !instancePattern.MatchString(m.InstanceID) {
		return meta{}, fmt.Errorf("it gossips an impossible node id %q or instance %q", m.NodeID, m.InstanceID)
	}
	if _, _, err := net.SplitHostPort(m.Raft); err != nil {
		return meta{}, fmt.Errorf("it gossips an impossible raft address: %w", err)
	}
	return m, nil
}

// peer is a coordinator as gossip last described it.
type peer struct {
	meta
	// Gossip is its gossip address, ip:port.
	Gossip string
	Alive  bool
}

// peerTable keeps the latest of each coordinator, dead ones included until their
// place is needed. It is safe for concurrent use and never calls memberlist, which
// calls it with its own lock held.
type peerTable struct {
	mu     sync.Mutex
	byName map[string]peer
	kick   chan struct{} // one slot: something changed
}

var _ memberlist.EventDelegate = (*peerTable)(nil)

func newPeerTable() *peerTable {
	return &peerTable{byName: map[string]peer{}, kick: make(chan struct{}, 1)}
}

// NotifyJoin implements memberlist.EventDelegate.
func (t *peerTable) NotifyJoin(n *memberlist.Node) { t.put(n, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (t *peerTable) NotifyUpdate(n *memberlist.Node) { t.put(n, true) }

// NotifyLeave implements memberlist.EventDelegate.
func (t *peerTable) NotifyLeave(n *memberlist.Node) { t.put(n, false) }

func (t *peerTable) put(n *memberlist.Node, alive bool) {
	m, err := decodeMeta(n.Meta)
	if err != nil || m.Role != roleCoordinator {
		return // the alive delegate has refused the former; the latter is no voter
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byName[n.Name]; !known && len(t.byName) >= maxPeers && !t.evict() {
		return
	}
	t.byName[n.Name] = peer{meta: m, Gossip: n.Address(), Alive: alive}
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// evict drops one dead peer; false if all are alive.
func (t *peerTable) evict() bool {
	for name, p := range t.byName {
		if !p.Alive {
			delete(t.byName, name)
			return true
		}
	}
	return false
}

// others are all peers but self, in order of server id.
func (t *peerTable) others(self raft.ServerID) []peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []peer
	for _, p := range t.byName {
		if p.serverID() != self {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b peer) int {
		return strings.Compare(string(a.serverID()), string(b.serverID()))
	})
	return out
}

// get is what gossip knows of a server.
func (t *peerTable) get(id raft.ServerID) (peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byName {
		if p.serverID() == id {
			return p, true
		}
	}
	return peer{}, false
}

// aliveAt reports whether a live coordinator gossips from address.
func (t *peerTable) aliveAt(address string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byName {
		if p.Alive && p.Gossip == address {
			return true
		}
	}
	return false
}
