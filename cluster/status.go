package cluster

import (
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

// Status is one node's view of the cluster, for people.
type Status struct {
	NodeID     string
	InstanceID string
	// State is leader, follower, candidate, starting or shutdown.
	State        string
	Term         uint64
	AppliedIndex uint64
	CommitIndex  uint64
	// LeaderID is a node id, empty while there is no leader; LeaderAddress is where
	// it serves RPC.
	LeaderID      string
	LeaderAddress string
	ClusterID     string
	// LastContact is the time since a follower last heard from its leader; 0 on the leader, -1 if never.
	LastContact time.Duration
	// Members are the servers of the Raft configuration, in its order.
	Members []Member
}

// Member is one server of the Raft configuration.
type Member struct {
	NodeID      string
	InstanceID  string
	RaftAddress string
	// RPCAddress is empty until the leader has asked the server for it.
	RPCAddress string
	// Suffrage is voter or nonvoter.
	Suffrage string
	Leader   bool
	// Gossip is alive, failed or unknown.
	Gossip string
}

// Leader returns the current leader as this node knows it, and where it serves RPC. Both are hints, empty if
// unknown.
func (n *Node) Leader() (nodeID, rpcAddress string) {
	_, id := n.raft.LeaderWithID()
	if id == "" {
		return "", ""
	}
	nodeID, _ = gossip.SplitServerID(id)
	return nodeID, n.rpcAddress(id)
}

// rpcAddress returns an address of the replicated state. Gossip does not count: anyone can forge it.
func (n *Node) rpcAddress(id raft.ServerID) string {
	if id == n.serverID {
		return n.cfg.RPCAddress
	}
	return n.addresses()[id]
}

// Status returns the status without disk and network.
func (n *Node) Status() Status {
	s := Status{
		NodeID: n.cfg.NodeID, InstanceID: n.instance, State: n.state(),
		Term: n.raft.CurrentTerm(), AppliedIndex: n.raft.AppliedIndex(), CommitIndex: n.raft.CommitIndex(),
		LastContact: n.lastContact(),
	}
	n.View(func(of *state.State) { s.ClusterID = of.ClusterID })
	s.LeaderID, s.LeaderAddress = n.Leader()
	_, leader := n.raft.LeaderWithID()
	for _, server := range n.configuration().Servers {
		node, instance := gossip.SplitServerID(server.ID)
		s.Members = append(s.Members, Member{
			NodeID: node, InstanceID: instance, RaftAddress: string(server.Address), RPCAddress: n.rpcAddress(server.ID),
			Suffrage: strings.ToLower(server.Suffrage.String()), Leader: server.ID == leader, Gossip: n.liveness(server.ID),
		})
	}
	return s
}

// state returns "starting" until the node has a Raft configuration.
func (n *Node) state() string {
	if len(n.configuration().Servers) == 0 {
		return "starting"
	}
	return strings.ToLower(n.raft.State().String())
}

func (n *Node) lastContact() time.Duration {
	if n.raft.State() == raft.Leader {
		return 0
	}
	last := n.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last)
}

func (n *Node) liveness(id raft.ServerID) string {
	if id == n.serverID {
		return "alive"
	}
	p, known := n.gossip.Peers.Get(id)
	switch {
	case !known:
		return "unknown"
	case p.Alive:
		return "alive"
	default:
		return "failed"
	}
}
