package api

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// stepConn is a stream whose messages come, and whose answers leave, one at a time as the
// test wants it.
type stepConn struct {
	messages chan error // nil: a message that is answered without a decision
	leave    chan error // what sending an answer ends with
}

func (c *stepConn) receive(x *rawCall) error {
	if err := <-c.messages; err != nil {
		return err
	}
	x.take(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{Request: &aliquotv1.CheckRequest{Cost: proto.Int64(0)}}}})
	return nil
}

func (c *stepConn) send(*rawCall) error { return <-c.leave }

func (c *stepConn) abandon() bool { return true }

func (c *stepConn) peer() string { return "" }

// TestStreamReturnsWhenNothingIsSent: however a stream ends, no answer is on its way once
// it has returned.
func TestStreamReturnsWhenNothingIsSent(t *testing.T) {
	s := serviceOf(t, oneRule)
	broken, unsent := errors.New("a message that cannot be read"), errors.New("an answer that cannot be sent")
	for name, c := range map[string]struct {
		end    func(c *stepConn, stop, leave func())
		leaves error // how sending ends, afterwards
		want   error
	}{
		"the client is done":          {func(c *stepConn, _, _ func()) { c.messages <- io.EOF }, nil, nil},
		"a message cannot be read":    {func(c *stepConn, _, _ func()) { c.messages <- broken }, nil, broken},
		"it fails after the last":     {func(c *stepConn, _, _ func()) { c.messages <- io.EOF }, unsent, unsent},
		"the first failure counts":    {func(c *stepConn, _, _ func()) { c.messages <- broken }, unsent, broken},
		"the client is gone":          {func(c *stepConn, _, leave func()) { leave(); c.messages <- io.EOF }, unsent, unsent},
		"the daemon stops":            {func(c *stepConn, stop, _ func()) { stop(); synctest.Wait(); c.messages <- io.EOF }, nil, errStopping},
		"it stops and cannot be read": {func(c *stepConn, stop, _ func()) { stop(); synctest.Wait(); c.messages <- broken }, nil, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				stopping := make(chan struct{})
				s.stopping, s.quota = stopping, newMemoryQuota(streamMemory, s.metrics, discard)
				conn := &stepConn{messages: make(chan error), leave: make(chan error)}
				ended := make(chan error, 1)
				go func() { ended <- s.checkStream(ctx, conn) }()
				conn.messages <- nil // one: others would wait for a lock, which holds up the bubble's Wait
				synctest.Wait()
				c.end(conn, func() { close(stopping) }, leave)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Errorf("it has returned while an answer was being sent: %v", err)
				default:
				}
				conn.leave <- c.leaves
				if err := <-ended; !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}
