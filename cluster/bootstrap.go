package cluster

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
)

// bootPlan is what a node without a Raft configuration should do.
type bootPlan struct {
	// join: there is a cluster, so this node must never begin another.
	join bool
	// complete: exactly the expected nodes are present.
	complete bool
	// view is a digest of these nodes, for gossip; empty while not complete.
	view string
	// bootstrap: all of them see the same nodes, and this node is the one that begins.
	bootstrap bool
	servers   []raft.Server
	// problem is an obstacle that does not pass by itself.
	problem string
	// found are the ids of the expected nodes that are present, this one included, while some are
	// missing.
	found []string
}

// planBoot decides about the first bootstrap. Two clusters would begin if two nodes each found enough others and
// the two sets differed. So a node begins only if exactly the expected number of nodes is present, every one of
// them sees the same set, and its own id is the smallest.
func planBoot(self gossip.Meta, others []gossip.Peer) bootPlan {
	var p bootPlan
	set := []gossip.Meta{self}
	for _, o := range others {
		if o.Bootstrapped || o.Cluster != "" {
			p.join = true // a dead one counts too: its cluster may only be out of sight
		}
		if o.Alive && o.Expect > 0 {
			set = append(set, o.Meta)
		}
	}
	if p.join || self.Expect == 0 {
		return p
	}
	if p.problem = setProblem(self, set); p.problem != "" {
		return p
	}
	if len(set) < self.Expect {
		for _, m := range set {
			p.found = append(p.found, m.NodeID)
		}
		slices.Sort(p.found)
		return p
	}
	slices.SortFunc(set, func(a, b gossip.Meta) int { return strings.Compare(a.NodeID, b.NodeID) })
	p.complete = true
	for _, m := range set {
		p.servers = append(p.servers, raft.Server{Suffrage: raft.Voter, ID: m.ServerID(), Address: raft.ServerAddress(m.Raft)})
	}
	p.view = digest(p.servers)
	p.bootstrap = set[0].NodeID == self.NodeID
	for _, m := range set {
		if m.ServerID() != self.ServerID() && m.View != p.view {
			p.bootstrap = false
		}
	}
	return p
}

// setProblem returns a fault of the set that waiting does not cure, or an empty text.
func setProblem(self gossip.Meta, set []gossip.Meta) string {
	ids, addresses := map[string]bool{}, map[string]bool{}
	for _, m := range set {
		switch {
		case m.Expect != self.Expect:
			return fmt.Sprintf("node %s says --bootstrap-expect %d, this one %d: start all with the same", m.NodeID, m.Expect, self.Expect)
		case ids[m.NodeID]:
			return fmt.Sprintf("two nodes say --node-id %s: give each its own", m.NodeID)
		case addresses[m.Raft]:
			return fmt.Sprintf("two nodes advertise the raft address %s: give each its own --advertise or --raft-listen", m.Raft)
		}
		ids[m.NodeID], addresses[m.Raft] = true, true
	}
	if len(set) > self.Expect {
		return fmt.Sprintf("%d nodes are here, but --bootstrap-expect is %d: start only that many, the others can join later", len(set), self.Expect)
	}
	return ""
}

func digest(servers []raft.Server) string {
	h := fnv.New64a()
	for _, s := range servers {
		// Writing to a hash cannot fail.
		_, _ = fmt.Fprintf(h, "%s@%s\n", s.ID, s.Address)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// promiseRelease is how long a promise lasts after its set was last complete. It is long enough for gossip to carry
// a new view to all who rely on the promise, and short enough that a node that was replaced before the first
// bootstrap does not block it forever.
const promiseRelease = 30 * time.Second

// promise is the set with which a node agreed to bootstrap. A node has one promise at a time, gossips no other set
// and begins with no other. So two sets that share a node cannot both begin while the promise lasts. The zero value
// promises nothing.
type promise struct {
	view string
	seen time.Time // when the set was last complete
}

// apply makes p agree with the promise. The first complete set becomes the promise. Until the promise is released
// the node gossips no other set and begins with no other.
func (b *promise) apply(p *bootPlan, now time.Time) {
	if b.view != "" && b.view != p.view && now.Sub(b.seen) > promiseRelease {
		*b = promise{}
	}
	if b.view == "" {
		b.view = p.view
	}
	if b.view != p.view {
		p.view, p.complete, p.bootstrap = b.view, false, false
		return
	}
	b.seen = now
}
