package api

import (
	"context"
	"errors"
	"testing"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// slowConn is a stream whose client sends and does not read.
type slowConn struct {
	received chan struct{} // one for each message that was read
	ended    context.Context
}

func (c *slowConn) receive(x *rawCall) error {
	if c.ended.Err() != nil {
		return c.ended.Err()
	}
	x.take(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{}}})
	c.received <- struct{}{}
	return nil
}

func (c *slowConn) send(*rawCall) error {
	<-c.ended.Done()
	return c.ended.Err()
}

func (c *slowConn) abandon() bool { return false }

func (c *slowConn) peer() string { return "slow" }

// TestStreamHoldsUpWhoDoesNotRead: so many messages are read and no more.
func TestStreamHoldsUpWhoDoesNotRead(t *testing.T) {
	s := serviceOf(t, oneRule)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &slowConn{received: make(chan struct{}, 10*maxStreamed), ended: ctx}
	done := make(chan error, 1)
	go func() { done <- s.checkStream(ctx, c) }()
	for range maxStreamed + 1 { // one waits for a slot
		<-c.received
	}
	select {
	case <-c.received:
		t.Error("more was read than may be under way")
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
