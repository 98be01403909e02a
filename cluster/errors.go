package cluster

import (
	"errors"
	"fmt"
)

// ErrNotLeader says that only the leader can do this. Both fields are hints and may be empty: there may be no
// leader, or its address may not be replicated yet. It is returned by value; test for it with errors.As.
type ErrNotLeader struct {
	// LeaderID is the node id of the leader.
	LeaderID string
	// RPCAddress is where the leader serves RPC, host:port.
	RPCAddress string
}

// Error implements error.
func (e ErrNotLeader) Error() string {
	if e.LeaderID == "" {
		return "cluster: this node is not the leader, and no leader is known; try again after the election"
	}
	return fmt.Sprintf("cluster: this node is not the leader; ask %s at %q", e.LeaderID, e.RPCAddress)
}

var (
	// ErrNotProposed says that nothing was changed: the caller's time was over before the command was proposed.
	ErrNotProposed = errors.New("cluster: nothing was changed, because the caller's deadline passed first; send it again with a longer deadline")
	// ErrBehind says that nothing was changed: the leader could not apply what was committed before, or raft took no
	// further command in time.
	ErrBehind = errors.New("cluster: nothing was changed, because this coordinator could not apply the changes before; send it again")
	// ErrNotProved says that no proof of leadership came before the caller's time or this node ended.
	ErrNotProved = errors.New("cluster: this coordinator could not prove that it leads; try again")
	// ErrUnknownOutcome says that a command may have been applied, or may be applied later: leadership was lost, or
	// the wait ended, between its start and its commit.
	ErrUnknownOutcome = errors.New("cluster: the command may or may not have been applied; read what is in force before it is sent again")
	// ErrShutdown is the error of every operation on a node that was shut down.
	ErrShutdown = errors.New("cluster: the node is shut down")
	// ErrRemoved ends a node that was removed from the cluster.
	ErrRemoved = errors.New("cluster: this node was removed from the cluster; to join again, start it with an empty data directory")
	// ErrNodeAlive refuses a join under the id of another live node.
	ErrNodeAlive = errors.New("cluster: a live node already uses this node id")
	// ErrNotThere refuses a join of a server that does not answer at its address.
	ErrNotThere = errors.New("cluster: the server that is to join does not answer at its Raft address; check its --advertise and --raft-listen")
	// ErrUnknownMember refuses the removal of a node that is no member.
	ErrUnknownMember = errors.New("cluster: no such member")
	// ErrNotRemovable refuses a removal that would leave a cluster without a working majority, or that would remove
	// the leader.
	ErrNotRemovable = errors.New("cluster: nothing was removed")
	// ErrLeaderStuck ends a leader that can no longer commit.
	ErrLeaderStuck = errors.New("cluster: this leader could not commit anything for three election timeouts")
)
