package store

import (
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"aliquot/regional/store/breaker"
)

// errNotBegun: the call failed before it charged anything.
var errNotBegun = errors.New("store: nothing was charged")

// NodeError is the failure of one node of a Redis Cluster. Each node has a breaker of its own, so
// the failure says nothing about the other nodes.
type NodeError struct {
	Node string // host:port
	Err  error
}

// Error returns the cause with the address of the node.
func (e *NodeError) Error() string { return fmt.Sprintf("store: node %s: %v", e.Node, e.Err) }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// refusing are the error prefixes of a server that decides nothing for now.
var refusing = [...]string{"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM"}

// untouched are the error prefixes of a server that has not executed a script, or that has ended it before
// its first write.
var untouched = [...]string{
	"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "NOSCRIPT",
	"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOAUTH", "WRONGPASS",
}

// ChargedNothing reports whether a call that failed with err has charged nothing, and will charge nothing.
// A call that was sent and brought no answer may still charge.
func ChargedNothing(err error) bool {
	for _, before := range [...]error{breaker.ErrOpen, errNoOwner, errNotBegun, errTurn, errUnvouched} {
		if errors.Is(err, before) {
			return true
		}
	}
	for _, prefix := range untouched {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	op, network := errors.AsType[*net.OpError](err)
	return network && op.Op == "dial"
}

// unwell reports whether a failure counts against the node's breaker. errUnvouched does not, because
// a process answers.
func unwell(err error) bool {
	if err == nil || errors.Is(err, errUnvouched) {
		return false
	}
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return true
	}
	for _, prefix := range refusing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// blameNode turns the refusal of one slot into a *NodeError of its node, because it says nothing about
// the other slots.
func (j *job) blameNode() {
	slotOnly := redis.HasErrorPrefix(j.err, "TRYAGAIN") || redis.HasErrorPrefix(j.err, "CLUSTERDOWN Hash slot") ||
		redis.HasErrorPrefix(j.err, "MOVED") || redis.HasErrorPrefix(j.err, "ASK")
	if _, already := errors.AsType[*NodeError](j.err); slotOnly && !already && j.by != nil {
		j.err = &NodeError{Node: j.by.addr, Err: j.err}
	}
}
