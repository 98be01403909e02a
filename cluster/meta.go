package cluster

import (
	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

// ownMeta is what this node says of itself.
func (n *Node) ownMeta(view string) gossip.Meta {
	m := n.identify()
	m.Expect, m.View = n.cfg.BootstrapExpect, view
	m.Bootstrapped = len(n.configuration().Servers) > 0 || n.dir.id.Member
	return m
}

// identify is what this node answers on its Raft port. It is safe for concurrent use.
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

// clusterID is what the state says, or what the data directory remembered at the start,
// before the log is replayed.
func (n *Node) clusterID() string {
	id := ""
	n.View(func(s *state.State) { id = s.ClusterID })
	if id == "" {
		return n.cluster
	}
	return id
}
