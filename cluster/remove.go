package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

// maxRemoved is the number of removed servers that a leader remembers.
const maxRemoved = 64

// answerPoll is how often the answers of voters are checked.
const answerPoll = 20 * time.Millisecond

// RemoveMember removes all instances of a node from the cluster, on the leader. It returns once the removal is
// committed. The node itself, if it still runs, fails with ErrRemoved, and can join again with an empty data
// directory.
//
// Errors: ErrNotLeader; ErrUnknownMember; ErrNotRemovable if the node is the leader or the last voter, or if the
// leader does not hear, through Raft, a majority of the voters that would remain. Gossip does not count. After
// ErrUnknownOutcome the removal may still come into force.
func (n *Node) RemoveMember(ctx context.Context, nodeID string) error {
	if !gossip.ValidNodeID(nodeID) {
		return fmt.Errorf("%w: node id %q", state.ErrInvalidArgument, nodeID)
	}
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	going, err := n.removable(ctx, nodeID, ofNode(nodeID))
	if err != nil {
		return err
	}
	for _, s := range going {
		if err := n.removeServer(ctx, s.ID); err != nil {
			return err
		}
		n.rememberRemoved(s.ID)
	}
	return nil
}

// removable returns the result of checkRemoval after the voters had an election timeout to answer. Only answers to
// messages that were sent after the call began count: a voter that answered a moment ago may be dead, and a change
// of members that cannot be committed is the end of the cluster.
func (n *Node) removable(ctx context.Context, name string, selected func(raft.Server) bool) ([]raft.Server, error) {
	all := func(raft.ServerID) bool { return true }
	answered := n.answersFromNow()
	if _, err := checkRemoval(n.configuration(), n.serverID, name, selected, all); err != nil {
		return nil, err
	}
	// Heartbeats go out at least five times in an election timeout.
	patience := time.NewTimer(n.cfg.electionTimeout())
	defer patience.Stop()
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		going, err := checkRemoval(n.configuration(), n.serverID, name, selected, answered)
		if err == nil {
			return going, nil
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-n.ctx.Done():
			return nil, ErrShutdown
		}
	}
}

// answersFromNow returns a function that reports whether a server, as a follower of this leader, has answered a
// message that was sent after the call of answersFromNow. It is true for this node itself.
func (n *Node) answersFromNow() func(raft.ServerID) bool {
	term, asked := n.Term(), n.trans.Mark()
	return func(id raft.ServerID) bool { return id == n.serverID || n.trans.Confirms(id, term, asked) }
}

// ofNode selects the servers of a node.
func ofNode(nodeID string) func(raft.Server) bool {
	return func(s raft.Server) bool { node, _ := gossip.SplitServerID(s.ID); return node == nodeID }
}

// rememberRemoved makes this leader refuse a request to join that the server sent before it learned of its removal.
// The caller has locked the members.
func (n *Node) rememberRemoved(id raft.ServerID) {
	if len(n.removed) >= maxRemoved {
		n.removed = slices.Delete(n.removed, 0, 1)
	}
	n.removed = append(n.removed, id)
}

// checkRemoval returns why the servers that selected picks cannot be removed; errors call them name. Without an error
// it returns these servers, the one with a vote last.
//
// A leader does not remove itself. hashicorp/raft 1.8.0 would replicate the change and shut down, and the outcome
// would stay unknown, because a future may stay unanswered when raft shuts down. A transfer of leadership is no
// solution (issue 696). Until the change is committed raft also counts the leader's own vote in its VerifyLeader:
// of three remaining voters one would be enough, while the other two elect another leader. Node.VerifyLeader does
// not count it.
func checkRemoval(c raft.Configuration, leader raft.ServerID, name string, selected func(raft.Server) bool, answers func(raft.ServerID) bool) ([]raft.Server, error) {
	going, voters := partition(c, selected)
	refused := func(format string, args ...any) ([]raft.Server, error) {
		return nil, fmt.Errorf("%w: %s", ErrNotRemovable, fmt.Sprintf(format, args...))
	}
	leads := slices.ContainsFunc(going, func(s raft.Server) bool { return s.ID == leader })
	switch {
	case len(going) == 0:
		return nil, fmt.Errorf("%w: %q; the members are %s", ErrUnknownMember, name, names(c.Servers))
	case len(voters) == 0:
		return refused("%s is the last voter, and without it there is no cluster; let another coordinator join first", name)
	case leads && len(voters) == 1:
		return refused("%s leads the cluster and %s alone could not elect a leader without it; let another coordinator join first", name, names(voters))
	case leads:
		return refused("%s leads the cluster, and a leader does not remove itself; stop its process, wait some seconds until another coordinator leads, then remove it there", name)
	}
	silent := slices.DeleteFunc(slices.Clone(voters), func(s raft.Server) bool { return answers(s.ID) })
	if need := len(voters)/2 + 1; len(voters)-len(silent) < need {
		return refused("without %s the voters would be %s, of which %d must run, but the leader does not hear %s; start the silent ones again with their data directories, or remove those that are lost for good first",
			name, names(voters), need, names(silent))
	}
	return going, nil
}

// partition splits a configuration into the servers that go, the one with a vote last, and the voters that would
// remain.
func partition(c raft.Configuration, selected func(raft.Server) bool) (going, voters []raft.Server) {
	for _, s := range c.Servers {
		switch {
		case selected(s) && s.Suffrage == raft.Voter:
			going = append(going, s)
		case selected(s):
			going = slices.Insert(going, 0, s)
		case s.Suffrage == raft.Voter:
			voters = append(voters, s)
		}
	}
	return going, voters
}

// names returns the node ids of servers, each once.
func names(servers []raft.Server) string {
	var out []string
	for _, s := range servers {
		if node, _ := gossip.SplitServerID(s.ID); !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

const (
	// unlistedTimeouts is the number of election timeouts for which a configuration without this node must last.
	// The leader that appended it may die before it is committed; the next leader, elected after two to three,
	// withdraws it then.
	unlistedTimeouts = 5
	// forgottenTimeouts is the same for a node that learns of its removal by gossip first. It is long enough to
	// detect that the leader with the list is dead, and for the next leader to contact this node.
	forgottenTimeouts = 15
)

// removedFrom reports whether this node was removed from the cluster, and whether it may have been; in that case it
// should wait. Raft usually says so: the last entry that a removed server receives is the configuration without it.
// A server that was cut off never receives that entry, is refused every vote, and would stand for election forever.
func (m *membership) removedFrom(c raft.Configuration, now time.Time) (removed, waiting bool) {
	self, listed := find(c, m.serverID)
	unlisted := !listed && len(c.Servers) > 0 && (m.dir.id.Member || m.dir.id.Listed)
	removed = hasLasted(&m.unlistedSince, unlisted, now, unlistedTimeouts*m.cfg.electionTimeout())
	_, leader := m.raft.LeaderWithID()
	forgotten := listed && self.Suffrage == raft.Voter && leader == "" && m.forgottenByGossip()
	if hasLasted(&m.forgottenSince, forgotten, now, forgottenTimeouts*m.cfg.electionTimeout()) {
		m.forgottenSince = now
		removed = removed || m.forgottenByLeader(c)
	}
	return removed, unlisted
}

// hasLasted stores in since when a condition began, and reports whether it has lasted for patience.
func hasLasted(since *time.Time, holds bool, now time.Time, patience time.Duration) bool {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	return holds && now.Sub(*since) >= patience
}

// forgottenByLeader asks the known servers, at their Raft addresses, whether one of them leads this cluster without
// this node among the members. Gossip may be forged.
func (m *membership) forgottenByLeader(c raft.Configuration) bool {
	for _, s := range c.Servers {
		if s.ID == m.serverID {
			continue
		}
		p, err := m.queryServer(m.ctx, s)
		if err == nil && p.Leader && p.Members != "" && p.Cluster == m.clusterID() && !p.Lists(m.instance) {
			return true
		}
	}
	return false
}

// forgottenByGossip reports whether gossip has a live leader of this cluster without this node among the members.
// Then it is time for forgottenByLeader.
func (m *membership) forgottenByGossip() bool {
	for _, p := range m.gossip.Peers.Others(m.serverID) {
		if p.Alive && p.Leader && p.Members != "" && p.Cluster == m.clusterID() && !p.Lists(m.instance) {
			return true
		}
	}
	return false
}
