package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// openBubble is a stream within a bubble of synctest, whose messages are answered without a
// decision.
func openBubble(s *Service, r *memoryQuota, conn streamConn) (ended chan error) {
	s.quota, s.stopping = r, make(chan struct{})
	ended = make(chan error, 1)
	go func() { ended <- s.checkStream(context.Background(), conn) }()
	return ended
}

// TestNoRoomIsTold: a message that finds no room ends its stream with what to do.
func TestNoRoomIsTold(t *testing.T) {
	s := serviceOf(t, oneRule)
	synctest.Test(t, func(t *testing.T) {
		r := newMemoryQuota(streamMemory, s.metrics, discard)
		r.give(-streamMemory)
		conn := &stepConn{messages: make(chan error), leave: make(chan error)}
		began, ended := time.Now(), openBubble(s, r, conn)
		conn.messages <- nil
		if err := <-ended; !errors.Is(err, errNoRoom) || connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Error(err)
		}
		if waited := time.Since(began); waited != quotaRounds*unreadFor {
			t.Errorf("after %v", waited)
		}
		if r.inUse() != streamMemory || r.waiting != 0 {
			t.Errorf("%d bytes in use, %d wait", r.inUse(), r.waiting)
		}
	})
}

// TestWhoReadsStays: of two streams that take all the room the one goes that still sends what
// it sent a second ago; and none where room came before.
func TestWhoReadsStays(t *testing.T) {
	s := serviceOf(t, oneRule)
	synctest.Test(t, func(t *testing.T) {
		r := newMemoryQuota(100, s.metrics, discard)
		slow, deaf, idle := &stream{unread: make(chan struct{})}, &stream{unread: make(chan struct{})}, &stream{unread: make(chan struct{})}
		for _, s := range []*stream{slow, deaf, idle} {
			r.open(s)
		}
		slow.turn.Store(1)
		deaf.turn.Store(1)
		gone := func(s *stream) bool {
			select {
			case <-s.unread:
				return true
			default:
				return false
			}
		}
		r.give(-90)
		taken := make(chan error, 1)
		take := func(n int64) { go func() { taken <- r.take(t.Context(), n) }() }
		take(20)
		<-time.After(unreadFor / 2)
		r.give(10)
		if err := <-taken; err != nil || gone(slow) || gone(deaf) {
			t.Errorf("%v; room came in time, and a stream is gone: %v, %v", err, gone(slow), gone(deaf))
		}
		take(20)
		<-time.After(unreadFor / 2)
		slow.turn.Store(3)
		<-time.After(unreadFor)
		synctest.Wait()
		if gone(slow) || gone(idle) || !gone(deaf) {
			t.Errorf("gone: who reads %v, who has nothing to read %v, who does not read %v", gone(slow), gone(idle), gone(deaf))
		}
		r.give(20)
		if err := <-taken; err != nil || r.inUse() != 100 {
			t.Errorf("%v, %d in use", err, r.inUse())
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { taken <- r.take(ctx, 1) }()
		synctest.Wait()
		leave()
		if err := <-taken; connect.CodeOf(err) != connect.CodeCanceled || r.waiting != 0 || r.inUse() != 100 {
			t.Errorf("%v, %d wait, %d in use", err, r.waiting, r.inUse())
		}
	})
}

// panicConn is a stream that panics when an answer is sent.
type panicConn struct{ *stepConn }

func (c panicConn) send(x *rawCall) error {
	_ = c.stepConn.send(x)
	panic(fmt.Sprint("sending ", aliquotv1connect.LimiterServiceCheckStreamProcedure))
}

// TestPanicWhileSendingEndsTheStream, also for the answers that waited for their turn.
func TestPanicWhileSendingEndsTheStream(t *testing.T) {
	s := serviceOf(t, oneRule)
	synctest.Test(t, func(t *testing.T) {
		r := newMemoryQuota(streamMemory, s.metrics, discard)
		conn := &stepConn{messages: make(chan error), leave: make(chan error)}
		ended := openBubble(s, r, panicConn{conn})
		conn.messages <- nil
		conn.messages <- nil
		close(conn.leave) // each that is sent panics
		if err := <-ended; connect.CodeOf(err) != connect.CodeInternal {
			t.Error(err)
		}
		select {
		case conn.messages <- io.EOF: // the receiver gets no more
		case <-time.After(time.Hour):
		}
		synctest.Wait()
		if r.inUse() != 0 {
			t.Errorf("%d bytes in use", r.inUse())
		}
	})
}

// TestNobodyIsWokenForNothing: who waits for room is woken when there is some for one of them,
// not each time that an answer has left.
func TestNobodyIsWokenForNothing(t *testing.T) {
	r := newMemoryQuota(100, nil, nil)
	r.give(-100)
	woken := func(freed <-chan struct{}) bool {
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}
	large, _ := r.await(50)
	if r.give(49); woken(large) {
		t.Error("50 are wanted, and 49 free")
	}
	small, ok := r.await(50)
	if r.give(1); ok || !woken(large) || !woken(small) {
		t.Errorf("50 are free, and two who want them were woken: %v, %v", woken(large), woken(small))
	}
	if _, ok := r.await(50); !ok {
		t.Error("50 are free")
	}
	last, ok := r.await(100)
	if r.give(50); ok || woken(last) {
		t.Error("100 are wanted, and 50 free")
	}
	if r.give(50); !woken(last) {
		t.Error("100 are free, and who wants them sleeps")
	}
}
