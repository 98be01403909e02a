package gossip

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// RoleCoordinator marks members that can be voters.
const RoleCoordinator = "coordinator"

var (
	nodeIDPattern   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	instancePattern = regexp.MustCompile(`^[0-9a-f]{8}$`)
)

// ValidNodeID reports whether a node can have this id: 1 to 64 of A-Z a-z 0-9 . _ -
func ValidNodeID(id string) bool { return nodeIDPattern.MatchString(id) }

// ValidInstanceID reports whether a data directory can have this id: 8 of 0-9 a-f.
func ValidInstanceID(id string) bool { return instancePattern.MatchString(id) }

// ServerID returns the id of a node's Raft server: each data directory of a node is another server.
func ServerID(nodeID, instanceID string) raft.ServerID {
	return raft.ServerID(nodeID + "/" + instanceID)
}

// SplitServerID takes a server id apart; instanceID is empty if it has none.
func SplitServerID(id raft.ServerID) (nodeID, instanceID string) {
	nodeID, instanceID, _ = strings.Cut(string(id), "/")
	return nodeID, instanceID
}

// Meta is what a node announces about itself by gossip, at most 512 bytes of JSON, and the answer to a question on
// its Raft port. Except for the first bootstrap, Meta from gossip is only a hint: anyone can send it.
type Meta struct {
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
	// View is a digest of the nodes with which this one would bootstrap; empty while it is not ready.
	View string `json:"v,omitempty"`
	// Members are the instance ids of all servers, one after the other, in the Meta of a leader. A node that was
	// cut off when it was removed learns of its removal here.
	Members string `json:"m,omitempty"`
}

// ServerID returns the id of the node's Raft server.
func (m Meta) ServerID() raft.ServerID { return ServerID(m.NodeID, m.InstanceID) }

// Encode returns m as JSON, or an error if gossip cannot carry it.
func (m Meta) Encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode gossip meta: %w", err)
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the node id and the advertised addresses make %d bytes of gossip Meta, at most %d: use a shorter --node-id or --advertise", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

// DecodeMeta refuses a Meta that no coordinator can have.
func DecodeMeta(b []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(b, &m); err != nil {
		return Meta{}, fmt.Errorf("it gossips no readable meta: %w", err)
	}
	if m.Role != RoleCoordinator {
		return m, nil
	}
	if !ValidNodeID(m.NodeID) || !ValidInstanceID(m.InstanceID) {
		return Meta{}, fmt.Errorf("it gossips an impossible node id %q or instance %q", m.NodeID, m.InstanceID)
	}
	if _, _, err := net.SplitHostPort(m.Raft); err != nil {
		return Meta{}, fmt.Errorf("it gossips an impossible raft address: %w", err)
	}
	return m, nil
}

// WithMembers returns m with the list of members, or m if gossip cannot carry the list.
func (m Meta) WithMembers(c raft.Configuration) Meta {
	full := m
	for _, s := range c.Servers {
		_, instance := SplitServerID(s.ID)
		full.Members += instance
	}
	if _, err := full.Encode(); err != nil {
		return m
	}
	return full
}

// Lists reports whether an instance is among the members. All instance ids have the same length.
func (m Meta) Lists(instance string) bool {
	for rest := m.Members; len(rest) >= len(instance) && instance != ""; rest = rest[len(instance):] {
		if strings.HasPrefix(rest, instance) {
			return true
		}
	}
	return false
}
