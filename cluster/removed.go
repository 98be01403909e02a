package cluster

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// unlistedTimeouts is how many election timeouts a configuration without this node
	// must last. The leader that appended it may die before it is committed, and the
	// next one, elected after two to three, takes it back.
	unlistedTimeouts = 5
	// forgottenTimeouts is the same for a node that hears of its removal by gossip
	// first: long enough for failure detection to notice that the leader with the list
	// is dead, and for the next one to make itself heard.
	forgottenTimeouts = 15
)

// removedFrom reports whether this node was removed from the cluster, and whether
// it may have been, which is no time to ask for anything. Raft usually tells: the
// last entry that a removed server is sent is the configuration without it. One
// that was cut off meanwhile never gets that entry, is refused every vote, and
// would stand for election for ever.
func (m *membership) removedFrom(c raft.Configuration, now time.Time) (removed, waiting bool) {
	self, listed := find(c, m.serverID)
	unlisted := !listed && len(c.Servers) > 0 && (m.dir.id.Member || m.dir.id.Listed)
	removed = lasts(&m.unlistedSince, unlisted, now, unlistedTimeouts*m.cfg.electionTimeout())
	_, leader := m.raft.LeaderWithID()
	forgotten := listed && self.Suffrage == raft.Voter && leader == "" && m.forgottenByGossip()
	if lasts(&m.forgottenSince, forgotten, now, forgottenTimeouts*m.cfg.electionTimeout()) {
		m.forgottenSince = now
		removed = removed || m.forgottenByLeader(c)
	}
	return removed, unlisted
}

// lasts keeps in since when a condition began, and reports that it has lasted.
func lasts(since *time.Time, holds bool, now time.Time, patience time.Duration) bool {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	return holds && now.Sub(*since) >= patience
}

// forgottenByLeader asks the servers that this node knows, at their Raft addresses,
// whether one leads this cluster without this node among the members. Gossip takes
// anybody's word for that.
func (m *membership) forgottenByLeader(c raft.Configuration) bool {
	for _, s := range c.Servers {
		if s.ID == m.serverID {
			continue
		}
		p, err := m.ask(m.ctx, s)
		if err == nil && p.Leader && p.Members != "" && p.Cluster == m.clusterID() && !p.Lists(m.instance) {
			return true
		}
	}
	return false
}

// forgottenByGossip reports that a live node is said to lead this cluster without this
// node among the members: then it is time to ask.
func (m *membership) forgottenByGossip() bool {
	for _, p := range m.gossip.Peers.Others(m.serverID) {
		if p.Alive && p.Leader && p.Members != "" && p.Cluster == m.clusterID() && !p.Lists(m.instance) {
			return true
		}
	}
	return false
}
