// Package cluster replicates the budget ledger and the rules: Node is one coordinator's member of a Raft cluster.
// It bootstraps a new cluster or joins an existing one, adds and removes members, and proves leadership.
//
// Commands go in through Propose and its callers, on the leader. View reads the state that they build, on any node.
// Four packages do the parts: state is the replicated state machine, raftlog what a node keeps on disk, raftnet the
// connections of Raft, and gossip the discovery of other nodes. What gossip says never changes who may vote.
package cluster
