// Package lua holds the scripts that decide inside Redis, and typed functions that call them. Only
// this package knows the order of KEYS and ARGV and the text of a record. Package limit is the
// scripts' reference: the same arguments give the same answer.
package lua

import (
	"errors"
	"fmt"

	"aliquot/limit"
)

// Group is one request. Either all its limits hold the cost, in micro-tokens, and are charged, or
// none is. A limit with a View.Cost has that cost instead. Cost may be 0 if every limit has a
// View.Cost, or a chunk to return or to borrow. The keys of one group differ; groups of one call
// may repeat them.
type Group struct {
	Cost   limit.Tokens
	Limits []KeyView
}

// chunks reports whether any of its limits has a chunk.
func (g *Group) chunks() bool {
	for i := range g.Limits {
		if g.Limits[i].View.Chunk.Asked() {
			return true
		}
	}
	return false
}

// KeyView names a record, by Key, and holds the caller's right to spend from it. Stamp, Until,
// Known and Deadline are the same in all views of one call, because one daemon makes it at one
// instant. So are Phase, Since, Birth, FloorSince, HeardWait and Blind in the views of buckets;
// counting limits have their own. Heard is ignored: the store fills it in.
type KeyView struct {
	Key  string
	View limit.View
}

// Result is the answer to one Group. Limits are in the order of the request. Err says why a store
// of several servers, or the one in memory, could not decide this group while it decided others; nothing was admitted
// then. Undecided has why, for each limit that it could not ask about. The other limits have their
// outcomes: their charge was given back, but a debit was taken. Clocks has the clock by which each limit
// was decided, if several decided the limits of one call; nil: the call's clock decided all. Crowded
// lists the limits of cold keys that have no record of their own for want of room: several share one, or
// are denied without any.
type Result struct {
	Allowed   bool
	Limits    []limit.Outcome
	Clocks    []int64
	Err       error
	Undecided map[int]error
	Crowded   []int
}

// Change is a new share of one key. The requirements of KeyView for views hold for it too.
type Change struct {
	Key string
	limit.Change
}

// Clock returns the clock by which a limit was decided, in microseconds. now is the clock of its
// call.
func (r *Result) Clock(limit int, now int64) int64 {
	if r.Clocks == nil {
		return now
	}
	return r.Clocks[limit]
}

// EpochError is the error of a call whose store has other contents than the caller expected.
// Nothing was read or written. Actual is the redis epoch of the contents, empty if they have none
// yet. The caller must learn the epoch and open a new session.
type EpochError struct{ Actual string }

func (e *EpochError) Error() string {
	if e.Actual == "" {
		return "lua: the store lost its contents: it has no epoch; learn a new one"
	}
	return fmt.Sprintf("lua: the store has other contents: its epoch is %q; learn it again", e.Actual)
}

// LateError is the error of a take that reached the store after its deadline. Nothing was read or
// written. Either the take was delayed and its caller no longer waits, or the store's clock was set
// forward and the caller has to learn it again.
type LateError struct{ Now int64 } // the store's clock, microseconds

func (e *LateError) Error() string {
	return fmt.Sprintf("lua: the call reached the store after its deadline, at %d by the store's clock", e.Now)
}

// ErrInvalid is wrapped by every error about arguments that the store cannot count with, which are
// a bug of the caller. It says nothing about the store's health.
var ErrInvalid = errors.New("lua: invalid argument")
