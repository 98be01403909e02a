package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// catchUpTimeout bounds the wait for a new server to receive the log.
	catchUpTimeout = 30 * time.Second
	// catchUpEvery is how often its progress is looked at; heartbeats report it.
	catchUpEvery = 50 * time.Millisecond
	// configTimeout bounds the wait for raft to accept one change of members.
	configTimeout = 5 * time.Second
	// maxServers bounds the configuration: voters, and as many on their way in.
	maxServers = 2 * maxVoters
)

// Join makes a server a voter, on the leader: add it without a vote, wait until it
// has the log, promote it, then remove older instances of the same node. A member
// that comes back under another address gets its entry corrected. ErrNotLeader
// elsewhere; ErrNodeAlive if gossip still sees another instance of the node alive.
// An error leaves a server without a vote at worst; joining again goes on from there.
func (n *Node) Join(ctx context.Context, nodeID, instanceID, raftAddress string) error {
	if err := checkJoin(nodeID, instanceID, raftAddress); err != nil {
		return err
	}
	select {
	case n.joining <- struct{}{}:
		defer func() { <-n.joining }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if n.raft.State() != raft.Leader {
		return n.notLeader()
	}
	id, address := serverID(nodeID, instanceID), raft.ServerAddress(raftAddress)
	config := n.configuration()
	self, listed := find(config, id)
	if listed && self.Suffrage == raft.Voter {
		if self.Address == address {
			return nil
		}
		return n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddVoter(id, address, 0, configTimeout) })
	}
	older, err := n.olderInstances(config, nodeID, instanceID, address)
	if err != nil {
		return err
	}
	if !listed && len(config.Servers) >= maxServers {
		return fmt.Errorf("%w: the cluster has %d servers, at most %d: remove one first", ErrInvalidArgument, len(config.Servers), maxServers)
	}
	n.log.Info("a node joins", "server", string(id), "raft", raftAddress)
	return n.admitServer(ctx, id, address, older)
}

func (n *Node) admitServer(ctx context.Context, id raft.ServerID, address raft.ServerAddress, older []raft.Server) error {
	// Raft allows an address only once: whoever had this one is gone from it.
	for _, s := range older {
		if s.Address == address {
			if err := n.removeServer(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	n.trans.forgetProgress(id)
	if err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddNonvoter(id, address, 0, configTimeout) }); err != nil {
		return fmt.Errorf("add %s: %w", id, err)
	}
	if err := n.waitCaughtUp(ctx, id); err != nil {
		return err
	}
	if err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.AddVoter(id, address, 0, configTimeout) }); err != nil {
		return fmt.Errorf("promote %s: %w", id, err)
	}
	for _, s := range older {
		if s.Address != address {
			if err := n.removeServer(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkJoin(nodeID, instanceID, raftAddress string) error {
	if !nodeIDPattern.MatchString(nodeID) || !instancePattern.MatchString(instanceID) {
		return fmt.Errorf("%w: node id %q, instance id %q", ErrInvalidArgument, nodeID, instanceID)
	}
	host, port, err := net.SplitHostPort(raftAddress)
	if err != nil || host == "" || unspecified(host) || !validPort(port, 1) || len(raftAddress) > 255+6 {
		return fmt.Errorf("%w: raft address %q is not host:port", ErrInvalidArgument, raftAddress)
	}
	return nil
}

// olderInstances are the node's earlier servers. It is an error if one of them
// still lives at another address: then two machines claim the same node id.
func (n *Node) olderInstances(c raft.Configuration, nodeID, instanceID string, address raft.ServerAddress) ([]raft.Server, error) {
	var older []raft.Server
	for _, s := range c.Servers {
		node, instance := splitServerID(s.ID)
		if node != nodeID || instance == instanceID {
			continue
		}
		p, known := n.gossip.peers.get(s.ID)
		alive := known && p.Alive || s.ID == n.serverID
		if alive && s.Address != address {
			return nil, fmt.Errorf("%w: %s at %s; if that node is gone, failure detection will notice in some seconds", ErrNodeAlive, s.ID, s.Address)
		}
		older = append(older, s)
	}
	return older, nil
}

func (n *Node) removeServer(ctx context.Context, id raft.ServerID) error {
	err := n.changeMembers(ctx, func() raft.IndexFuture { return n.raft.RemoveServer(id, 0, configTimeout) })
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	n.trans.forgetProgress(id)
	n.log.Info("an older instance of a node was removed", "server", string(id))
	return nil
}

func (n *Node) changeMembers(ctx context.Context, ask func() raft.IndexFuture) error {
	if _, err := wait(ctx, n, ask); err != nil {
		return n.explain(err)
	}
	return nil
}

// waitCaughtUp waits until the server has what was committed when the wait began.
func (n *Node) waitCaughtUp(ctx context.Context, id raft.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	goal := n.raft.CommitIndex()
	tick := time.NewTicker(catchUpEvery)
	defer tick.Stop()
	for n.trans.progress(id) < goal {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return ErrShutdown
		case <-ctx.Done():
			return fmt.Errorf("cluster: %s has log entry %d of %d and is not promoted yet (%w); it may join again", id, n.trans.progress(id), goal, ctx.Err())
		}
		if n.raft.State() != raft.Leader {
			return n.notLeader()
		}
	}
	return nil
}
