package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	raftlogv1 "aliquot/proto/raftlog/v1"
)

const (
	// askEvery is how often the leader asks each server where it serves RPC; a hint by gossip, and an address that is
	// missing, have it ask at once.
	askEvery = 10 * time.Second
	// askPause is the least time between two rounds, whatever gossip says.
	askPause = 500 * time.Millisecond
	// proposePatience bounds the wait for the addresses to be committed.
	proposePatience = 10 * time.Second
	// maxAddressBytes is that of a host name and a port.
	maxAddressBytes = 255 + 6
)

// ServerAddress is where a coordinator serves RPC.
type ServerAddress struct {
	// Server is the id of its Raft server.
	Server raft.ServerID
	// RPC is host:port.
	RPC string
}

func encodeAddresses(addresses []ServerAddress) []*raftlogv1.ServerAddress {
	out := make([]*raftlogv1.ServerAddress, len(addresses))
	for i, a := range addresses {
		out[i] = &raftlogv1.ServerAddress{Server: string(a.Server), Rpc: a.RPC}
	}
	return out
}

func decodeAddresses(in []*raftlogv1.ServerAddress) ([]ServerAddress, error) {
	if len(in) > maxServers {
		return nil, fmt.Errorf("%w: addresses of %d servers, at most %d", ErrInvalidArgument, len(in), maxServers)
	}
	out := make([]ServerAddress, len(in))
	for i, a := range in {
		out[i] = ServerAddress{raft.ServerID(a.GetServer()), a.GetRpc()}
		switch {
		case a.GetServer() == "" || len(a.GetServer()) > maxServerID || a.GetRpc() == "" || len(a.GetRpc()) > maxAddressBytes:
			return nil, fmt.Errorf("%w: server %q at %q", ErrInvalidArgument, shortName(a.GetServer()), shortName(a.GetRpc()))
		case i > 0 && out[i].Server <= out[i-1].Server:
			return nil, fmt.Errorf("%w: the address of server %q is out of order", ErrInvalidArgument, a.GetServer())
		}
	}
	return out, nil
}

func (s *State) setAddresses(c *raftlogv1.SetAddresses) (changed bool, err error) {
	addresses, err := decodeAddresses(c.GetAddresses())
	if err != nil {
		return false, err
	}
	s.Addresses = addresses
	return true, nil
}

// addresses is the replicated table.
func (n *Node) addresses() map[raft.ServerID]string {
	out := map[raft.ServerID]string{}
	n.View(func(s *State) {
		for _, a := range s.Addresses {
			out[a.Server] = a.RPC
		}
	})
	return out
}

// addressBook is the leader's upkeep of the replicated addresses.
type addressBook struct {
	last time.Time
	done chan struct{} // nil while no round is under way
}

// keepAddresses has the leader ask each server, at the Raft address in the configuration, where it serves RPC, and
// replicate what has changed. Gossip only says that it may be time to ask.
func (m *membership) keepAddresses(now time.Time) {
	config := m.configuration()
	if m.dir.id.Member {
		m.gossip.peers.expire(now, func(id raft.ServerID) bool { _, listed := find(config, id); return listed })
	}
	if !m.Leads() || m.clusterID() == "" || m.book.done != nil || now.Sub(m.book.last) < askPause {
		return
	}
	table := m.addresses()
	if now.Sub(m.book.last) < askEvery && !m.doubts(config, table) {
		return
	}
	m.book.last = now
	done := make(chan struct{})
	m.book.done = done
	m.loops.Go(func() {
		defer close(done)
		if err := m.replicateAddresses(config, table); err != nil && m.Leads() && m.quiet.allow("addresses", time.Now()) {
			m.log.Warn("cannot replicate where the coordinators serve RPC", "error", err)
		}
	})
}

// doubts reports that an address of the table is missing, or that gossip knows another one.
func (n *Node) doubts(c raft.Configuration, table map[raft.ServerID]string) bool {
	return len(table) > len(c.Servers) || slices.ContainsFunc(c.Servers, func(s raft.Server) bool {
		hint := n.cfg.RPCAddress
		if s.ID != n.serverID {
			p, _ := n.gossip.peers.get(s.ID)
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
			answer, err := n.layer.ask(n.ctx, s)
			if address = answer.RPC; err != nil {
				address = table[s.ID] // it may only be down
			}
		}
		if address != "" && len(address) <= maxAddressBytes {
			next[s.ID] = address
		}
	}
	if maps.Equal(next, table) {
		return nil
	}
	var list []ServerAddress
	for id, address := range next {
		list = append(list, ServerAddress{id, address})
	}
	slices.SortFunc(list, func(a, b ServerAddress) int { return strings.Compare(string(a.Server), string(b.Server)) })
	ctx, cancel := context.WithTimeout(n.ctx, proposePatience)
	defer cancel()
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_SetAddresses{SetAddresses: &raftlogv1.SetAddresses{Addresses: encodeAddresses(list)}}})
	return err
}
