package cluster

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// maxPeers bounds the table of what gossip said: a cluster has at most nine voters
// and a few dozen regional daemons; the rest is churn.
const maxPeers = 256

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
