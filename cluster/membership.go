package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/raftlog"
)

const (
	// joiningInterval is the interval of step before this node is a member. Gossip wakes it earlier.
	joiningInterval = 200 * time.Millisecond
	// memberInterval is the interval for a member, which only keeps its gossip up to date.
	memberInterval = time.Second
	// duplicatePatience is how long another live node of the same id may be this node's own predecessor, whose
	// failure is not detected yet.
	duplicatePatience = 10 * time.Second
	// joinTimeout is the time limit of one attempt to join. It includes the catching up.
	joinTimeout = catchUpTimeout + 10*time.Second
	// joinBackoff to joinBackoffMax pace the attempts.
	joinBackoff    = 250 * time.Millisecond
	joinBackoffMax = 5 * time.Second
)

// membership is the state of the loop that makes this node a member.
type membership struct {
	*Node
	began          time.Time
	duplicateSince time.Time
	view           string
	promise        promise
	attempts       int
	nextAttempt    time.Time
	joinDone       chan error // nil when no attempt is under way
	book           addressBook
	unlistedSince  time.Time // zero while this node's own configuration lists it
	forgottenSince time.Time // zero while no other leader is seen that does not list it
}

// keepMembership makes this node a voter at its own address, and keeps its gossip up to date until the node ends.
func (n *Node) keepMembership() {
	m := &membership{Node: n, began: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		case <-n.gossip.Peers.Changed():
		case err := <-m.joinDone:
			m.joined(err)
		case <-m.book.done:
			m.book.done = nil
		}
		settled := m.step(time.Now())
		m.keepAddresses(time.Now())
		n.gossip.Announce(n.ownMeta(m.view))
		if settled {
			timer.Reset(memberInterval)
		} else {
			timer.Reset(joiningInterval)
		}
	}
}

func (n *Node) configuration() raft.Configuration {
	return n.raft.GetConfiguration().Configuration()
}

// step does what is due now, and reports whether this node is a settled member.
func (m *membership) step(now time.Time) (settled bool) {
	m.remember()
	if err := m.logs.CheckStale(m.raft); errors.Is(err, raftlog.ErrStale) {
		m.fail(err)
	}
	config := m.configuration()
	self, listed := find(config, m.serverID)
	switch removed, waiting := m.removedFrom(config, now); {
	case m.raft.State() == raft.Shutdown, removed:
		m.fail(ErrRemoved)
		return true
	case waiting:
		return false
	case listed && self.Suffrage == raft.Voter && string(self.Address) == m.raftAddr:
		m.view = ""
		if len(earlier(config, m.serverID)) > 0 { // the leader that promoted this node did not get to remove them
			m.tryJoin(now)
			return false
		}
		return true
	case m.duplicated(now):
		return false
	}
	p := planBoot(m.ownMeta(""), m.gossip.Peers.Others(m.serverID))
	if len(m.cfg.Regions) > 0 {
		m.promise.apply(&p, now)
		m.view = p.view // without regions never ready: it could be the first leader and has none to declare
	}
	if p.problem != "" && m.limiter.Allow("boot "+p.problem, now) {
		m.log.Warn("not bootstrapping", "problem", p.problem)
	}
	// Nodes that start together find each other within a second.
	if len(p.found) > 0 && now.Sub(m.began) >= foundWithin && m.limiter.Allow("boot waits", now) {
		m.log.Info("waiting for the other coordinators of a new cluster; start them, with --join and the same --bootstrap-expect",
			"found", p.found, "bootstrap_expect", m.cfg.BootstrapExpect)
	}
	switch {
	case listed, p.join:
		m.tryJoin(now)
	case len(m.cfg.Regions) == 0:
		m.waitForRegions(p, now)
	case p.bootstrap:
		m.bootstrap(p.servers)
	}
	return false
}

// remember stores in the data directory what a start must know before it reads the log.
func (m *membership) remember() {
	id := m.dir.id
	cluster := m.clusterID()
	if id.ClusterID != "" && cluster != id.ClusterID {
		m.fail(fmt.Errorf("cluster: --data-dir belongs to cluster %s, but its log is of cluster %s: restore the whole directory from one backup", id.ClusterID, cluster))
		return
	}
	self, listed := find(m.configuration(), m.serverID)
	id.ClusterID, id.Listed = cluster, id.Listed || listed
	id.Member = id.Member || listed && self.Suffrage == raft.Voter
	if id == m.dir.id {
		return
	}
	if err := m.dir.store(id); err != nil && m.limiter.Allow("identity", time.Now()) {
		m.log.Error("cannot write the node's identity", "error", err)
	}
}

// duplicated reports whether another live node has this node's id. If that lasts, this node fails, unless it is a
// member.
func (m *membership) duplicated(now time.Time) bool {
	for _, p := range m.gossip.Peers.Others(m.serverID) {
		if !p.Alive || p.NodeID != m.cfg.NodeID || p.Raft == m.raftAddr {
			continue
		}
		if m.duplicateSince.IsZero() {
			m.duplicateSince = now
			m.log.Warn("another live node has the same --node-id", "raft", p.Raft, "gossip", p.Gossip, "instance", p.InstanceID)
		}
		if now.Sub(m.duplicateSince) > duplicatePatience && !m.dir.id.Member {
			m.fail(fmt.Errorf("%w: %q runs at %s (instance %s, this one is %s): give each node an id of its own", ErrNodeAlive, p.NodeID, p.Raft, p.InstanceID, m.instance))
		}
		return true
	}
	m.duplicateSince = time.Time{}
	return false
}

// waitForRegions ends a node that should bootstrap but has no regions to declare.
func (m *membership) waitForRegions(p bootPlan, now time.Time) {
	if p.complete {
		m.fail(fmt.Errorf("--regions is empty and there is no cluster to join: a new cluster must declare its regions"))
	} else if m.limiter.Allow("regions", now) {
		m.log.Info("waiting for a cluster to join; without --regions this node cannot begin one")
	}
}

// bootstrap bootstraps Raft with the given servers. The others learn of it through Raft.
func (m *membership) bootstrap(servers []raft.Server) {
	_, err := wait(m.ctx, m.Node, func() raft.Future {
		return m.raft.BootstrapCluster(raft.Configuration{Servers: servers})
	})
	if err != nil {
		if m.limiter.Allow("bootstrap", time.Now()) {
			m.log.Info("not bootstrapped here; waiting to hear from the node that did", "error", err)
		}
		return
	}
	m.log.Info("bootstrapped raft", "voters", len(servers))
}

// tryJoin asks the leader, in the background, to make this node a member.
func (m *membership) tryJoin(now time.Time) {
	if m.joinDone != nil || now.Before(m.nextAttempt) {
		return
	}
	join := m.joinVia()
	if join == nil {
		if m.limiter.Allow("join", now) {
			m.log.Info("waiting for a member of the cluster to join through")
		}
		return
	}
	done := make(chan error, 1)
	m.joinDone = done
	m.loops.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, joinTimeout)
		defer cancel()
		done <- join(ctx)
	})
}

// joinVia returns the next way to ask for membership: this node itself if it leads (its address has changed), else
// the leader according to gossip, then each member in turn, which forwards the request. It returns nil if there is
// none.
func (m *membership) joinVia() func(context.Context) error {
	if m.raft.State() == raft.Leader {
		return func(ctx context.Context) error {
			return m.Join(ctx, m.cfg.NodeID, m.instance, m.raftAddr)
		}
	}
	var leader, members []string
	for _, p := range m.gossip.Peers.Others(m.serverID) {
		if !p.Alive || !p.Bootstrapped || p.RPC == "" {
			continue
		}
		if p.Leader {
			leader = append(leader, p.RPC)
		} else {
			members = append(members, p.RPC)
		}
	}
	// Gossip about the leader may be forged, so the others are asked, too.
	members = append(leader, members...)
	if len(members) == 0 || m.cfg.JoinFunc == nil {
		return nil
	}
	address := members[m.attempts%len(members)]
	return func(ctx context.Context) error {
		return m.cfg.JoinFunc(ctx, address, m.cfg.NodeID, m.instance, m.raftAddr)
	}
}

// foundWithin is how long a node that is to bootstrap looks for the others without a word.
const foundWithin = 2 * time.Second

// startsWithin is how long a failed attempt to join is no warning: nodes that start together elect a leader first.
const startsWithin = 10 * time.Second

// joined records the end of an attempt. Success shows in the configuration.
func (m *membership) joined(err error) {
	m.joinDone = nil
	wait := min(joinBackoff<<min(m.attempts, 8), joinBackoffMax)
	m.attempts++
	m.nextAttempt = time.Now().Add(wait)
	switch {
	case err == nil:
	case time.Since(m.began) < startsWithin:
		m.log.Info("waiting for a leader to join", "error", err)
	case m.limiter.Allow("join failed", time.Now()):
		m.log.Warn("could not join the cluster; trying again", "error", err)
	}
}

func find(c raft.Configuration, id raft.ServerID) (raft.Server, bool) {
	for _, s := range c.Servers {
		if s.ID == id {
			return s, true
		}
	}
	return raft.Server{}, false
}
