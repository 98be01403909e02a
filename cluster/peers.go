package cluster

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// maxPeers bounds the table of what gossip said: a cluster has at most nine voters
// and a few dozen regional daemons; the rest is churn.
const maxPeers = 256

// expireAfter is how long a dead peer that is no server of the cluster is remembered.
const expireAfter = time.Minute

// peer is a coordinator as gossip last described it.
type peer struct {
	meta
	// Gossip is its gossip address, ip:port.
	Gossip string
	Alive  bool
	// LastSeen is when gossip last said anything of it.
	LastSeen time.Time
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
	if err != nil || m.Role != roleCoordinator || n.Name != string(m.serverID()) {
		return // the alive delegate has refused all but those that are no voters
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byName[n.Name]; !known && len(t.byName) >= maxPeers && !t.evict() {
		return
	}
	t.byName[n.Name] = peer{meta: m, Gossip: n.Address(), Alive: alive, LastSeen: time.Now()}
	t.wake()
}

// wake has the loop of membership look around at once.
func (t *peerTable) wake() {
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

// expire drops the dead ones that gossip has not mentioned for expireAfter, but those to keep.
func (t *peerTable) expire(now time.Time, keep func(raft.ServerID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, p := range t.byName {
		if !p.Alive && now.Sub(p.LastSeen) > expireAfter && !keep(p.serverID()) {
			delete(t.byName, name)
		}
	}
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
	p, known := t.byName[string(id)]
	return p, known
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
