// Package lua holds the scripts that decide inside Redis, and typed functions over
// them. It alone knows the order of their KEYS and ARGV and the text of a record.
// Package limit is the scripts' reference: same arguments, same answer.
package lua

import (
	"errors"
	"fmt"

	"aliquot/limit"
)

// Group is one request: a cost in micro-tokens that all its limits have to hold, each
// its own if it has one (View.Cost), or none is charged. Cost may be 0 if all have, or if
// those that have none have a chunk to bring back or to borrow. The keys of one group
// differ; groups of one call may repeat them.
type Group struct {
	Cost   limit.Tokens
	Limits []KeyView
}

// chunks tells whether any of its limits has a chunk.
func (g *Group) chunks() bool {
	for i := range g.Limits {
		if g.Limits[i].View.Chunk.Asked() {
			return true
		}
	}
	return false
}

// KeyView names a record, by Key, and the caller's right to spend it. Stamp, Until,
// Known and Deadline are the same in all views of one call: one daemon speaks at one instant. So
// are Phase, Since, Birth, FloorSince, HeardWait and Blind in those of buckets; limits
// that count have their own. Heard is the store's to know, and not looked at.
type KeyView struct {
	Key  string
	View limit.View
}

// Result is the answer to one Group; Limits are in the order asked. Err is why a store of
// several servers could not decide this group, while it did others: nothing was admitted;
// Undecided are the limits that it could not ask about. Clocks are the clocks that the limits
// were decided by, where those of one call were decided by several; nil: all by the call's.
// Crowded are the limits of cold keys for which the store has no record of their own, for want
// of room: several share one, or are denied without any.
type Result struct {
	Allowed   bool
	Limits    []limit.Outcome
	Clocks    []int64
	Err       error
	Undecided []int
	Crowded   []int
}

// Change is a new share of one key. What KeyView says of views holds here too.
type Change struct {
	Key string
	limit.Change
}

// Clock is the one that a limit was decided by, microseconds, of a call whose clock was now.
func (r *Result) Clock(limit int, now int64) int64 {
	if r.Clocks == nil {
		return now
	}
	return r.Clocks[limit]
}

// EpochError tells that the store's contents are not the ones the caller expected:
// nothing was read or written. Actual is their redis epoch, empty if they have none
// yet. The remedy is to learn the epoch anew and open a new session.
type EpochError struct{ Actual string }

func (e *EpochError) Error() string {
	if e.Actual == "" {
		return "lua: the store lost its contents: it has no epoch; learn a new one"
	}
	return fmt.Sprintf("lua: the store has other contents: its epoch is %q; learn it anew", e.Actual)
}

// LateError tells that a take reached the store after its deadline: nothing was read
// or written. Either it was stuck on its way, and nobody waits for it any more, or
// the store's clock was set forward, and the caller has to learn it anew.
type LateError struct{ Now int64 } // the store's clock, microseconds

func (e *LateError) Error() string {
	return fmt.Sprintf("lua: the call reached the store after its deadline, at %d by the store's clock", e.Now)
}

// ErrInvalid is wrapped by every error about arguments the store cannot count with,
// a bug of the caller. It says nothing about the store's health.
var ErrInvalid = errors.New("lua: invalid argument")
