package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

const (
	// catchUpTimeout is how long a new server may take to receive the log.
	catchUpTimeout = 30 * time.Second
	// catchUpPoll is how often the leader checks the progress of a new server; heartbeats report it.
	catchUpPoll = 50 * time.Millisecond
	// configTimeout is how long raft may take to accept one change of members.
	configTimeout = 5 * time.Second
)

// Join makes a server a voter, on the leader. The server must answer at its address. Join adds it without a vote,
// waits until it has the log, promotes it, and then removes older instances of the same node. For a member that
// came back under another address it corrects the address.
//
// Errors: ErrNotLeader; ErrNotThere if the server does not answer at the address; ErrNodeAlive if another instance
// of the node is alive; ErrNotRemovable if the cluster would lose its majority with an older instance; ErrRemoved
// if this leader has removed the server; ErrUnknownOutcome if a change may still come into force. After an error the
// server may remain without a vote; a repeated Join goes on from there. If the leader loses its leadership between the
// vote and the removal, the voter joins once more.
func (n *Node) Join(ctx context.Context, nodeID, instanceID, raftAddress string) error {
	if err := checkJoin(nodeID, instanceID, raftAddress); err != nil {
		return err
	}
	joiner := raft.Server{Suffrage: raft.Voter, ID: gossip.ServerID(nodeID, instanceID), Address: raft.ServerAddress(raftAddress)}
	if !n.Leads() {
		return n.NotLeader()
	}
	if err := n.checkAddress(ctx, joiner); err != nil {
		return err
	}
	done, err := n.admit(ctx, joiner)
	if err != nil || done {
		return err
	}
	// The lock is free meanwhile: an operator must be able to remove a server that never catches up.
	if err := n.waitCaughtUp(ctx, joiner.ID); err != nil {
		return err
	}
	return n.promote(ctx, joiner)
}

// checkAddress asks the joiner itself, at the given address: anyone can send a request to join.
func (n *Node) checkAddress(ctx context.Context, joiner raft.Server) error {
	if joiner.ID == n.serverID {
		if string(joiner.Address) != n.raftAddr {
			return fmt.Errorf("%w: this leader is at %s", ErrNotThere, n.raftAddr)
		}
		return nil
	}
	m, err := n.queryServer(ctx, joiner)
	switch own := n.clusterID(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotThere, err)
	case m.Raft != string(joiner.Address):
		return fmt.Errorf("%w: %s answers at %s, but says that it is at %s", ErrNotThere, joiner.ID, joiner.Address, m.Raft)
	case m.Cluster != "" && m.Cluster != own:
		return fmt.Errorf("%w: %s belongs to cluster %s, this is %s", ErrNotThere, joiner.ID, m.Cluster, own)
	}
	return nil
}

// lockMembers waits until no other call changes members, and keeps others waiting until unlock is called. The error
// is ErrNotLeader if this node does not lead.
func (n *Node) lockMembers(ctx context.Context) (unlock func(), err error) {
	select {
	case n.joining <- struct{}{}:
		if n.raft.State() != raft.Leader {
			<-n.joining
			return nil, n.NotLeader()
		}
		return func() { <-n.joining }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("cluster: another change of members is under way; try again (%w)", ctx.Err())
	case <-n.ctx.Done():
		return nil, ErrShutdown
	}
}

// admit makes the joiner a server without a vote. done means that it already is a voter and the join is complete.
func (n *Node) admit(ctx context.Context, joiner raft.Server) (done bool, err error) {
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if slices.Contains(n.removed, joiner.ID) {
		return false, ErrRemoved
	}
	config := n.configuration()
	if self, listed := find(config, joiner.ID); listed && self.Suffrage == raft.Voter {
		return true, n.complete(ctx, config, self, joiner)
	} else if !listed && len(config.Servers) >= state.MaxServers {
		return false, fmt.Errorf("%w: the cluster has %d servers, at most %d: remove one first", state.ErrInvalidArgument, len(config.Servers), state.MaxServers)
	}
	older, err := n.olderInstances(ctx, config, joiner)
	if err != nil {
		return false, err
	}
	n.log.Info("a node joins", "server", string(joiner.ID), "raft", string(joiner.Address))
	// Raft allows an address only once, and the joiner has answered at this one.
	sameAddress := func(s raft.Server) bool { return s.Address == joiner.Address }
	if err := n.removeServers(ctx, older, sameAddress); err != nil {
		return false, err
	}
	n.trans.Forget(joiner.ID)
	if err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddNonvoter(joiner.ID, joiner.Address, 0, configTimeout) }); err != nil {
		return false, fmt.Errorf("add %s: %w", joiner.ID, err)
	}
	return false, nil
}

// complete completes the join of a voter. Its address may have changed, and the leader that promoted it may have ended
// before it removed the older instances.
func (n *Node) complete(ctx context.Context, c raft.Configuration, listed, joiner raft.Server) error {
	if err := n.correctAddress(ctx, listed, joiner); err != nil {
		return err
	}
	before := earlier(c, joiner.ID)
	if len(before) == 0 {
		return nil
	}
	older, err := n.olderInstances(ctx, raft.Configuration{Servers: before}, joiner)
	if err != nil {
		return err
	}
	if err := n.checkRemovals(ctx, older); err != nil {
		return err
	}
	return n.removeServers(ctx, older, func(raft.Server) bool { return true })
}

// earlier returns the servers of the same node that were added before one of its servers.
func earlier(c raft.Configuration, id raft.ServerID) (before []raft.Server) {
	node, _ := gossip.SplitServerID(id)
	for _, s := range c.Servers {
		if s.ID == id {
			return before
		}
		if of, _ := gossip.SplitServerID(s.ID); of == node {
			before = append(before, s)
		}
	}
	return nil
}

// correctAddress changes the address of a voter that came back under another one.
func (n *Node) correctAddress(ctx context.Context, listed, joiner raft.Server) error {
	if listed.Address == joiner.Address {
		return nil
	}
	return n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddVoter(joiner.ID, joiner.Address, 0, configTimeout) })
}

// promote gives a joiner that has the log its vote, unless it was removed meanwhile, and removes its older
// instances.
func (n *Node) promote(ctx context.Context, joiner raft.Server) error {
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	config := n.configuration()
	if _, listed := find(config, joiner.ID); !listed {
		return ErrRemoved
	}
	older, err := n.olderInstances(ctx, config, joiner)
	if err != nil {
		return err
	}
	if err := n.checkRemovals(ctx, older); err != nil {
		return err
	}
	if err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddVoter(joiner.ID, joiner.Address, 0, configTimeout) }); err != nil {
		return fmt.Errorf("promote %s: %w", joiner.ID, err)
	}
	return n.removeServers(ctx, older, func(raft.Server) bool { return true })
}

func checkJoin(nodeID, instanceID, raftAddress string) error {
	if !gossip.ValidNodeID(nodeID) {
		return fmt.Errorf("%w: node_id is %.64q; it has 1 to 64 of A-Z a-z 0-9 . _ -", state.ErrInvalidArgument, nodeID)
	}
	if !gossip.ValidInstanceID(instanceID) {
		return fmt.Errorf("%w: instance_id is %.64q; it has 8 of 0-9 a-f", state.ErrInvalidArgument, instanceID)
	}
	host, port, err := net.SplitHostPort(raftAddress)
	if err != nil || host == "" || unspecified(host) || !validPort(port, 1) || len(raftAddress) > state.MaxAddressBytes {
		return fmt.Errorf("%w: raft address %q is not host:port", state.ErrInvalidArgument, raftAddress)
	}
	return nil
}

// olderInstances returns the joiner's earlier servers. It returns ErrNodeAlive if one of them still follows this
// leader in Raft: then two machines use the same node id. Gossip does not count. An instance at the joiner's own
// address is gone, because the joiner has answered there. This leader itself is never an older instance.
func (n *Node) olderInstances(ctx context.Context, c raft.Configuration, joiner raft.Server) ([]raft.Server, error) {
	var older, elsewhere []raft.Server
	nodeID, _ := gossip.SplitServerID(joiner.ID)
	for _, s := range c.Servers {
		if node, _ := gossip.SplitServerID(s.ID); node != nodeID || s.ID == joiner.ID {
			continue
		}
		if s.ID == n.serverID {
			return nil, fmt.Errorf("%w: %s at %s leads the cluster", ErrNodeAlive, s.ID, s.Address)
		}
		older = append(older, s)
		if s.Address != joiner.Address {
			elsewhere = append(elsewhere, s)
		}
	}
	return older, n.checkSilent(ctx, elsewhere)
}

// checkSilent returns ErrNodeAlive if one of the servers answers, within an election timeout, a message that is
// sent from now on.
func (n *Node) checkSilent(ctx context.Context, servers []raft.Server) error {
	if len(servers) == 0 {
		return nil
	}
	answers := n.answersFromNow()
	patience := time.NewTimer(n.cfg.electionTimeout())
	defer patience.Stop()
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		for _, s := range servers {
			if answers(s.ID) {
				return fmt.Errorf("%w: %s at %s answers the leader; stop that node, or give this one an id of its own", ErrNodeAlive, s.ID, s.Address)
			}
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-n.ctx.Done():
			return ErrShutdown
		}
	}
}

// checkRemovals returns why the servers cannot be removed, as for a removal by an operator; nil if they can.
func (n *Node) checkRemovals(ctx context.Context, servers []raft.Server) error {
	if len(servers) == 0 {
		return nil
	}
	going := func(s raft.Server) bool { _, listed := find(raft.Configuration{Servers: servers}, s.ID); return listed }
	_, err := n.removable(ctx, "the earlier instance of "+names(servers), going)
	return err
}

// removeServers removes the servers that which selects, one after the other, if that leaves a majority.
func (n *Node) removeServers(ctx context.Context, servers []raft.Server, which func(raft.Server) bool) error {
	for _, s := range servers {
		if !which(s) {
			continue
		}
		if err := n.checkRemovals(ctx, []raft.Server{s}); err != nil {
			return err
		}
		if err := n.removeServer(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) removeServer(ctx context.Context, id raft.ServerID) error {
	err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.RemoveServer(id, 0, configTimeout) })
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	n.trans.Forget(id)
	n.log.Info("a server was removed", "server", string(id))
	return nil
}

// changeMembers makes one change of the configuration. An error before the change had an index is a refusal of raft;
// after any other the change may be in the log and be committed later, like a command.
func (n *Node) changeMembers(ctx context.Context, ask func() raft.IndexFuture) error {
	switch future, err := wait(ctx, n, ask); {
	case err == nil:
		return nil
	case future != nil && future.Index() == 0:
		return n.translate(err)
	default:
		return n.outcome(err)
	}
}

// waitCaughtUp waits until the server has everything that was committed when the wait began.
func (n *Node) waitCaughtUp(ctx context.Context, id raft.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	goal := n.raft.CommitIndex()
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for n.trans.Progress(id) < goal {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return ErrShutdown
		case <-ctx.Done():
			return fmt.Errorf("cluster: %s has log entry %d of %d and is not promoted yet (%w); it may join again", id, n.trans.Progress(id), goal, ctx.Err())
		}
		if n.raft.State() != raft.Leader {
			return n.NotLeader()
		}
		if _, listed := find(n.configuration(), id); !listed {
			return ErrRemoved
		}
	}
	return nil
}
