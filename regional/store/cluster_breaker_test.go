package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
)

// TestNodeBreaker: a node that fails is first asked by one at a time, then left alone for
// longer and longer, and one trial is made each time.
func TestNodeBreaker(t *testing.T) {
	const had = 100 * time.Millisecond
	now := time.UnixMilli(0)
	var b nodeBreaker
	fails := func() transition {
		t.Helper()
		if err := b.enter(now, true); err != nil {
			t.Fatalf("not asked: %v", err)
		}
		return b.leave(now, true, had, had)
	}
	for range suspectAfter {
		if fails() != same {
			t.Fatal("opened too soon")
		}
	}
	if b.enter(now, true) != nil || b.enter(now, true) == nil {
		t.Fatal("a node that failed gets one call at a time")
	}
	b.leave(now, true, had, had)
	if fails() != opened || !b.open() {
		t.Fatal("not open after 5 failures in a row")
	}
	for _, wait := range []time.Duration{minOpen, 2 * minOpen, 4 * minOpen, 8 * minOpen, maxOpen, maxOpen} {
		now = now.Add(wait - time.Millisecond)
		if b.enter(now, true) == nil {
			t.Fatalf("asked before %v", wait)
		}
		now = now.Add(time.Millisecond)
		if b.enter(now, false) == nil {
			t.Fatal("a call for which a caller waits tries it")
		}
		if fails() != same {
			t.Fatal("told twice that it is open")
		}
	}
	now = now.Add(maxOpen)
	if b.enter(now, true) != nil || b.leave(now, false, 0, had) != closed || b.open() {
		t.Fatal("not closed by a good call")
	}
	for range 3 {
		if b.enter(now, false) != nil {
			t.Fatal("a well node gets as many calls as come")
		}
	}
}

// TestNodeBreakerStarved: what this process noticed late is no failure of a node that
// answered recently.
func TestNodeBreakerStarved(t *testing.T) {
	const had = 100 * time.Millisecond
	now := time.UnixMilli(0)
	var b nodeBreaker
	b.enter(now, true)
	b.leave(now, false, 0, had)
	for range 2 * tripAfter {
		if b.enter(now, true) != nil {
			t.Fatal("suspected for what this process did")
		}
		b.leave(now, true, had+had/lateBy+time.Millisecond, had)
	}
	now = now.Add(excusedFor)
	for range tripAfter {
		b.enter(now, true)
		b.leave(now, true, 2*had, had)
	}
	if !b.open() {
		t.Error("excused for ever")
	}
}

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestUnwell(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                      false,
		context.DeadlineExceeded: true,
		errors.New("EOF"):        true,
		errUnvouched:             false,
		answer("OOM command not allowed when used memory > 'maxmemory'."): true,
		answer("LOADING Redis is loading the dataset in memory"):          true,
		answer("BUSY Redis is busy running a script."):                    true,
		answer("NOPERM this user has no permissions"):                     true,
		answer("MOVED 1 127.0.0.1:1"):                                     false,
		answer("NOSCRIPT No matching script."):                            false,
		answer("ERR wrong number of arguments"):                           false,
	} {
		if got := unwell(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := fmt.Errorf("%w", &NodeError{Node: "h:1", Err: lua.ErrInvalid}); !errors.Is(err, lua.ErrInvalid) {
		t.Error("a node's failure does not tell why")
	}
}

// A node that fails is tried again after a wait, not at once.
func TestANodeThatFailsIsTriedAfterAWait(t *testing.T) {
	now := time.UnixMilli(0)
	var b nodeBreaker
	if in := b.trialIn(now); in != 0 {
		t.Errorf("a well node is tried in %v", in)
	}
	for range tripAfter {
		b.enter(now, true)
		b.leave(now, true, time.Millisecond, time.Second)
	}
	if in := b.trialIn(now); in < minOpen || in > maxOpen {
		t.Errorf("a node that has just failed is tried in %v", in)
	}
	if in := b.trialIn(now.Add(maxOpen)); in != 0 {
		t.Errorf("later it is tried in %v", in)
	}
}

func TestChargedNothing(t *testing.T) {
	for err, want := range map[error]bool{
		&NodeError{Node: "h:1", Err: errOpen}: true,
		errNoOwner:                            true,
		fmt.Errorf("%w: %w", errNotBegun, context.DeadlineExceeded):            true,
		&NodeError{Node: noNode, Err: errTurn}:                                 true,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}:        true,
		&NodeError{Node: "h:1", Err: answer("MOVED 1 127.0.0.1:1")}:            true,
		&NodeError{Node: "h:1", Err: answer("TRYAGAIN Multiple keys request")}: true,
		answer("READONLY You can't write against a read only replica."):        true,
		answer("OOM command not allowed when used memory > 'maxmemory'."):      true,
		answer("NOPERM this user has no permissions"):                          false, // a script may have written before
		answer("ERR user_script:1: a bug"):                                     false,
		&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}:  false,
		&NodeError{Node: "h:1", Err: context.DeadlineExceeded}:                 false,
		errors.New("EOF"): false,
	} {
		if got := ChargedNothing(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

// TestACallOfNodesSaysWhyForEachLimit: the breaker of one node is open, and no node is known for the other slot.
func TestACallOfNodesSaysWhyForEachLimit(t *testing.T) {
	s, err := NewCluster(DefaultRedisConfig("redis+cluster://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys := [2]string{lua.Key(limit.TokenBucket, 1, [16]byte{1}), lua.Key(limit.TokenBucket, 2, [16]byte{2})}
	lost := s.nodes.at("127.0.0.1:1")
	s.nodes.owners[lua.SlotOf(keys[0])].Store(lost)
	for range tripAfter {
		lost.breaker.enter(time.Now(), true)
		lost.breaker.leave(time.Now(), true, 0, time.Second)
	}
	view := coldView("e1", bucket(10, 0))
	got, _, err := s.Take(t.Context(), "e1", []Group{{Cost: limit.Token, Limits: []KeyView{{Key: keys[0], View: view}, {Key: keys[1], View: view}}}})
	if err == nil || len(got) != 1 || got[0].Allowed || !errors.Is(got[0].Undecided[0], errOpen) || !errors.Is(got[0].Undecided[1], errNoOwner) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestACallThatPanicsIsOver: the breaker of its node counts it as failed, and the node gets the next one.
func TestACallThatPanicsIsOver(t *testing.T) {
	s, err := NewCluster(DefaultRedisConfig("redis+cluster://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.nodes.closed = true                                                        // nothing is asked in the background
	to := &node{addr: "127.0.0.1:1", breaker: nodeBreaker{failed: suspectAfter}} // its client is missing
	to.trying.Store(true)
	j := &job{plain: []any{"ping"}, err: answer("MOVED 1 127.0.0.1:2")}
	func() {
		defer func() { _ = recover() }()
		s.sendTo(t.Context(), to, false, []*job{j})
		t.Error("it did not panic")
	}()
	if ChargedNothing(j.err) || !errors.Is(j.err, errNoAnswer) || to.breaker.inFlight != 0 || to.breaker.failed != suspectAfter+1 {
		t.Errorf("%v, %d calls under way, %d failed", j.err, to.breaker.inFlight, to.breaker.failed)
	}
}
