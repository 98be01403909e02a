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
	"aliquot/regional/store/breaker"
)

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

func TestChargedNothing(t *testing.T) {
	for err, want := range map[error]bool{
		&NodeError{Node: "h:1", Err: breaker.ErrOpen}: true,
		errNoOwner: true,
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

// clusterOfNobody is a store of a Redis Cluster without a server.
func clusterOfNobody(t *testing.T) *Cluster {
	t.Helper()
	s, err := NewCluster(DefaultRedisConfig("redis+cluster://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestACallOfNodesSaysWhyForEachLimit: the breaker of one node is open, and no node is known for the other slot.
func TestACallOfNodesSaysWhyForEachLimit(t *testing.T) {
	s := clusterOfNobody(t)
	keys := [2]string{lua.Key(limit.TokenBucket, 1, [16]byte{1}), lua.Key(limit.TokenBucket, 2, [16]byte{2})}
	lost := s.nodes.at("127.0.0.1:1")
	s.nodes.owners[lua.SlotOf(keys[0])].Store(lost)
	fail(lost, breaker.TripAfter)
	view := coldView("e1", bucket(10, 0))
	got, _, err := s.Take(t.Context(), "e1", []Group{{Cost: limit.Token, Limits: []KeyView{{Key: keys[0], View: view}, {Key: keys[1], View: view}}}})
	if err == nil || len(got) != 1 || got[0].Allowed || !errors.Is(got[0].Undecided[0], breaker.ErrOpen) || !errors.Is(got[0].Undecided[1], errNoOwner) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestACallThatPanicsIsOver: the breaker of its node counts it as failed, and the node gets the next one.
func TestACallThatPanicsIsOver(t *testing.T) {
	s := clusterOfNobody(t)
	s.nodes.closed = true            // nothing is asked in the background
	to := &node{addr: "127.0.0.1:1"} // its client is missing
	fails := func() breaker.Transition {
		if err := to.breaker.Enter(time.Now(), true); err != nil {
			t.Fatal(err)
		}
		return to.breaker.Leave(time.Now(), true, 0, time.Second)
	}
	for range breaker.TripAfter - 2 {
		fails()
	}
	to.trying.Store(true)
	j := &job{plain: []any{"ping"}, err: answer("MOVED 1 127.0.0.1:2")}
	func() {
		defer func() { _ = recover() }()
		s.sendTo(t.Context(), to, false, []*job{j})
		t.Error("it did not panic")
	}()
	if ChargedNothing(j.err) || !errors.Is(j.err, errNoAnswer) {
		t.Error(j.err)
	}
	if fails() != breaker.Opened {
		t.Error("the call is not counted as failed")
	}
}

// TestAnImporterThatHangsIsTried until it answers, or is dropped. A trial that only looked at its slots would call it well.
func TestAnImporterThatHangsIsTried(t *testing.T) {
	s := clusterOfNobody(t)
	to := s.nodes.at("127.0.0.1:2")
	to.imports.Store(true)
	if fail(to, breaker.TripAfter); s.answers(to) || !to.breaker.Open() {
		t.Error("it is well without a trial")
	}
	to.lastNamed = time.Now().Add(-2 * keepNode)
	if s.nodes.setOwners(to, nil); !s.answers(to) || to.breaker.Open() {
		t.Error("it is tried after it was dropped")
	}
}
