package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
)

// roleCoordinator marks the members that can be voters; others may gossip too.
const roleCoordinator = "coordinator"

// meta is what each node tells all others by gossip, at most 512 bytes of JSON, and
// what it answers to whoever asks on its Raft port. Gossip is a hint for everything but
// the first bootstrap: anybody can send it.
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
	// Members are the instance ids of all servers, one after the other, as a leader
	// lists them. A node that was cut off when it was removed learns it from here.
	Members string `json:"m,omitempty"`
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

// ownMeta is what this node says of itself.
func (n *Node) ownMeta(view string) meta {
	m := n.identify()
	m.Expect, m.View = n.cfg.BootstrapExpect, view
	m.Bootstrapped = len(n.configuration().Servers) > 0 || n.dir.id.Member
	return m
}

// identify is what this node answers on its Raft port. It is safe for concurrent use.
func (n *Node) identify() meta {
	m := meta{
		Role: roleCoordinator, NodeID: n.cfg.NodeID, InstanceID: n.instance,
		Raft: n.raftAddr, RPC: n.cfg.RPCAddress, Cluster: n.clusterID(),
	}
	r := n.running.Load()
	if r == nil || r.State() != raft.Leader {
		return m
	}
	m.Leader = true
	return m.withMembers(r.GetConfiguration().Configuration())
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

// withMembers adds the list of members, if it fits what gossip can carry.
func (m meta) withMembers(c raft.Configuration) meta {
	full := m
	for _, s := range c.Servers {
		_, instance := splitServerID(s.ID)
		full.Members += instance
	}
	if _, err := full.encode(); err != nil {
		return m
	}
	return full
}

// lists reports whether an instance is among the members; all ids have one length.
func (m meta) lists(instance string) bool {
	for rest := m.Members; len(rest) >= len(instance) && instance != ""; rest = rest[len(instance):] {
		if strings.HasPrefix(rest, instance) {
			return true
		}
	}
	return false
}
