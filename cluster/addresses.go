package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

const (
	// addressInterval is how often the leader asks each server for the address at which it serves RPC. A hint by gossip,
	// or a missing address, makes it ask at once.
	addressInterval = 10 * time.Second
	// minAddressPause is the shortest time between two rounds.
	minAddressPause = 500 * time.Millisecond
	// proposePatience is how long the leader waits until the addresses are committed.
	proposePatience = 10 * time.Second
)

// addresses returns the replicated addresses by server.
func (n *Node) addresses() map[raft.ServerID]string {
	out := map[raft.ServerID]string{}
	n.View(func(s *state.State) {
		for _, a := range s.Addresses {
			out[raft.ServerID(a.Server)] = a.RPC
		}
	})
	return out
}

// addressBook is the leader's work on the replicated addresses.
type addressBook struct {
	last time.Time
	done chan struct{} // nil while no round is under way
}

// keepAddresses makes the leader ask each server, at its Raft address in the configuration, for the address at
// which it serves RPC, and replicates changes. Gossip is only a hint that it may be time to ask. A leader that has not
// applied what earlier leaders committed asks nobody: its own table would lack the addresses of servers that are down.
func (m *membership) keepAddresses(now time.Time) {
	config := m.configuration()
	if m.dir.id.Member {
		m.gossip.Peers.Expire(now, func(id raft.ServerID) bool { _, listed := find(config, id); return listed })
	}
	if !m.Leads() || m.caughtUp.Load() != m.raft.CurrentTerm() || m.clusterID() == "" || m.book.done != nil || now.Sub(m.book.last) < minAddressPause {
		return
	}
	table := m.addresses()
	if now.Sub(m.book.last) < addressInterval && !m.addressesDiffer(config, table) {
		return
	}
	m.book.last = now
	done := make(chan struct{})
	m.book.done = done
	m.loops.Go(func() {
		defer close(done)
		if err := m.replicateAddresses(config, table); err != nil && m.Leads() && m.limiter.Allow("addresses", time.Now()) {
			m.log.Warn("cannot replicate where the coordinators serve RPC", "error", err)
		}
	})
}

// addressesDiffer reports whether the table lacks an address, or gossip has another one.
func (n *Node) addressesDiffer(c raft.Configuration, table map[raft.ServerID]string) bool {
	return len(table) > len(c.Servers) || slices.ContainsFunc(c.Servers, func(s raft.Server) bool {
		hint := n.cfg.RPCAddress
		if s.ID != n.serverID {
			p, _ := n.gossip.Peers.Get(s.ID)
			hint = p.RPC
		}
		return hint != "" && hint != table[s.ID]
	})
}

func (n *Node) replicateAddresses(c raft.Configuration, table map[raft.ServerID]string) error {
	next := map[raft.ServerID]string{}
	for _, s := range c.Servers {
		address := n.cfg.RPCAddress
		if s.ID != n.serverID {
			answer, err := n.queryServer(n.ctx, s)
			if address = answer.RPC; err != nil {
				address = table[s.ID] // it may only be down
			}
		}
		if address != "" && len(address) <= state.MaxAddressBytes {
			next[s.ID] = address
		}
	}
	if maps.Equal(next, table) {
		return nil
	}
	var list []state.ServerAddress
	for id, address := range next {
		list = append(list, state.ServerAddress{Server: string(id), RPC: address})
	}
	slices.SortFunc(list, func(a, b state.ServerAddress) int { return strings.Compare(a.Server, b.Server) })
	ctx, cancel := context.WithTimeout(n.ctx, proposePatience)
	defer cancel()
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_SetAddresses{SetAddresses: &raftlogv1.SetAddresses{Addresses: state.EncodeAddresses(list)}}})
	return err
}
