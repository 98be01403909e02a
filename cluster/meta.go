package cluster

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

// ownMeta returns what this node announces by gossip.
func (n *Node) ownMeta(view string) gossip.Meta {
	m := n.identify()
	m.Expect, m.View = n.cfg.BootstrapExpect, view
	m.Bootstrapped = len(n.configuration().Servers) > 0 || n.dir.id.Member
	return m
}

// identify returns what this node answers on its Raft port. It is safe for concurrent use.
func (n *Node) identify() gossip.Meta {
	m := gossip.Meta{
		Role: gossip.RoleCoordinator, NodeID: n.cfg.NodeID, InstanceID: n.instance,
		Raft: n.raftAddr, RPC: n.cfg.RPCAddress, Cluster: n.clusterID(),
	}
	r := n.running.Load()
	if r == nil || r.State() != raft.Leader {
		return m
	}
	m.Leader = true
	return m.WithMembers(r.GetConfiguration().Configuration())
}

// queryServer returns what the server at an address tells about itself, and an error if another server answers there.
func (n *Node) queryServer(ctx context.Context, server raft.Server) (gossip.Meta, error) {
	answer, err := n.layer.Ask(ctx, server)
	if err != nil {
		return gossip.Meta{}, err
	}
	m, err := gossip.DecodeMeta(answer)
	if err != nil {
		return gossip.Meta{}, err
	}
	if m.Role != gossip.RoleCoordinator || m.ServerID() != server.ID {
		return gossip.Meta{}, fmt.Errorf("at %s is %s, not %s", server.Address, m.ServerID(), server.ID)
	}
	return m, nil
}

// clusterID returns the id of the replicated state or, before the log is replayed, the one that the data directory
// had at the start.
func (n *Node) clusterID() string {
	id := ""
	n.View(func(s *state.State) { id = s.ClusterID })
	if id == "" {
		return n.cluster
	}
	return id
}
