// Package cluster makes the budget ledger and the rules replicated and available:
// a Raft node on the log of package raftlog that drives the state machine of package state, gossip
// discovery, the first bootstrap and the joining of new nodes.
//
// One Node is one coordinator. Commands go in through Propose on the leader, the
// state they build is read through View on any node. Nothing here reads a clock
// while it applies a command, and nothing that gossip says changes who may vote.
package cluster
