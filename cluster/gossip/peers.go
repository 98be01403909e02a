package gossip

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// maxPeers is the largest number of peers in the table: a cluster has at most nine voters and a few dozen regional
// daemons.
const maxPeers = 256

// expireAfter is how long a dead peer is kept that is no server of the cluster.
const expireAfter = time.Minute

// Peer is a coordinator as gossip last described it.
type Peer struct {
	Meta
	// Gossip is its gossip address, ip:port.
	Gossip string
	Alive  bool
	// LastSeen is when gossip last mentioned it.
	LastSeen time.Time
}

// Peers has the latest Peer of each coordinator. Dead ones stay until Expire drops them or their place is needed.
// It is safe for concurrent use. It never calls memberlist, which calls it with a lock of its own held. Make it
// with NewPeers.
type Peers struct {
	mu      sync.Mutex
	byName  map[string]Peer
	changed chan struct{} // one slot: something changed
}

var _ memberlist.EventDelegate = (*Peers)(nil)

// NewPeers returns an empty table.
func NewPeers() *Peers {
	return &Peers{byName: map[string]Peer{}, changed: make(chan struct{}, 1)}
}

// NotifyJoin implements memberlist.EventDelegate.
func (t *Peers) NotifyJoin(n *memberlist.Node) { t.put(n, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (t *Peers) NotifyUpdate(n *memberlist.Node) { t.put(n, true) }

// NotifyLeave implements memberlist.EventDelegate.
func (t *Peers) NotifyLeave(n *memberlist.Node) { t.put(n, false) }

func (t *Peers) put(n *memberlist.Node, alive bool) {
	m, err := DecodeMeta(n.Meta)
	if err != nil || m.Role != RoleCoordinator || n.Name != string(m.ServerID()) {
		return // the alive delegate has refused all but those that are no voters
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byName[n.Name]; !known && len(t.byName) >= maxPeers && !t.evict() {
		return
	}
	t.byName[n.Name] = Peer{Meta: m, Gossip: n.Address(), Alive: alive, LastSeen: time.Now()}
	t.Wake()
}

// Wake makes the channel of Changed deliver.
func (t *Peers) Wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// evict drops one dead peer; false if all are alive.
func (t *Peers) evict() bool {
	for name, p := range t.byName {
		if !p.Alive {
			delete(t.byName, name)
			return true
		}
	}
	return false
}

// Changed delivers when something has changed since it last delivered. It has one reader.
func (t *Peers) Changed() <-chan struct{} { return t.changed }

// Expire drops dead peers that gossip has not mentioned for a minute, except for those to keep.
func (t *Peers) Expire(now time.Time, keep func(raft.ServerID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, p := range t.byName {
		if !p.Alive && now.Sub(p.LastSeen) > expireAfter && !keep(p.ServerID()) {
			delete(t.byName, name)
		}
	}
}

// Others returns all peers except for self, in order of server id.
func (t *Peers) Others(self raft.ServerID) []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Peer
	for _, p := range t.byName {
		if p.ServerID() != self {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Peer) int {
		return strings.Compare(string(a.ServerID()), string(b.ServerID()))
	})
	return out
}

// Get returns the peer of a server, and false if there is none.
func (t *Peers) Get(id raft.ServerID) (Peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, known := t.byName[string(id)]
	return p, known
}

// aliveAt reports whether a live coordinator gossips from address.
func (t *Peers) aliveAt(address string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byName {
		if p.Alive && p.Gossip == address {
			return true
		}
	}
	return false
}
