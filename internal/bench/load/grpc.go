package load

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// grpcHead is the compression's flag and the length before a message.
const grpcHead = 5

// grpcCall is a call, on a stream of its own or as a message of one that is open.
type grpcCall struct {
	stream
	number uint32 // among the connection's
	due    time.Duration
	sent   time.Duration
}

// grpcConn is a connection of gRPC with several calls at once.
type grpcConn struct {
	*lane
	keys
	frames  *http2Conn
	calls   map[uint32]*grpcCall // under way, by the streams' ids, or by their numbers on a long one
	long    *stream              // that all calls are messages of; nil: each has its own
	done    []*grpcCall          // by the frame read last
	status  string               // of the headers read last
	message string

	// Of an open loop, which sends and receives at once; mu guards all of the above then.
	mu       sync.Mutex
	free     chan *grpcCall // calls that are not under way
	finished bool           // nothing more is sent
}

// serveGRPC keeps a connection's share of the workers busy.
func (l *lane) serveGRPC(ctx context.Context, conn net.Conn) error {
	g := &grpcConn{lane: l, keys: l.newKeys(), calls: map[uint32]*grpcCall{}}
	g.frames = newHTTP2Conn(conn, []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: l.config.method()},
		{Name: ":authority", Value: hostOf(l.config.Address)}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, g.header)
	err := g.begin()
	if err == nil && l.open() {
		err = g.openLoop(ctx)
	} else if err == nil {
		err = g.closedLoop()
	}
	if err != nil {
		g.failed(max(1, len(g.calls)), err)
	}
	return err
}

func (g *grpcConn) header(f hpack.HeaderField) {
	switch f.Name {
	case "grpc-status":
		g.status = f.Value
	case "grpc-message":
		g.message = f.Value
	}
}

// begin waits for the server's settings, which say how many calls it takes at once.
func (g *grpcConn) begin() error {
	if err := g.frames.flush(); err != nil {
		return err
	}
	head, payload, err := g.frames.peek()
	if err == nil {
		_, _, err = g.frames.take(head, payload)
	}
	if err == nil && g.config.Protocol == Stream {
		g.long = &stream{open: true}
		g.frames.start(g.long)
	}
	return err
}

// depth is how many calls the connection has under way at once.
func (g *grpcConn) depth() int {
	if g.long != nil {
		return g.config.Workers / g.config.Connections
	}
	return min(g.config.Workers/g.config.Connections, g.frames.most)
}

// send starts a call; flush must follow.
func (g *grpcConn) send(c *grpcCall, due time.Duration) {
	if c.due, c.sent = due, due; g.open() {
		c.sent = g.now()
	}
	c.request = g.mold.pour(c.request[:0], &g.keys)
	if g.long != nil {
		g.mold.name(c.request, c.number)
		g.calls[c.number] = c
		g.frames.more(g.long, c.request)
		return
	}
	g.frames.start(&c.stream)
	g.calls[c.id] = c
}

// take acts on the frame that was peeked at, and returns the calls that it ended, good until
// the next one.
func (g *grpcConn) take(head, payload []byte) ([]*grpcCall, error) {
	ended, how, err := g.frames.take(head, payload)
	g.done = g.done[:0]
	switch {
	case err != nil:
		return nil, err
	case g.long != nil:
		err = g.messages(ended != nil, how)
	case ended != nil:
		g.done = append(g.done, g.ended(ended, how))
	}
	return g.done, err
}

// ended records a call's end and returns the call.
func (g *grpcConn) ended(s *stream, how error) *grpcCall {
	c := g.calls[s.id]
	delete(g.calls, s.id)
	if how == nil && g.status != "0" {
		how = g.refusal()
	}
	g.status, g.message = "", ""
	switch {
	case how != nil:
		g.failed(1, how)
	case len(s.answer) < grpcHead || int(binary.BigEndian.Uint32(s.answer[1:])) != len(s.answer)-grpcHead:
		g.failed(1, errAnswer)
	default:
		g.answered(c.due, c.sent, s.answer[grpcHead:])
	}
	return c
}

// refusal is what the headers read last say.
func (g *grpcConn) refusal() error {
	return &answerError{status: "grpc status " + g.status, message: g.message}
}

// closedLoop sends a call whenever an answer has come. It flushes when there is nothing
// more to read.
func (g *grpcConn) closedLoop() error {
	for i := range g.depth() {
		g.send(&grpcCall{number: uint32(i)}, g.now())
	}
	for len(g.calls) > 0 {
		if g.frames.idle() && len(g.frames.out) > 0 {
			if err := g.frames.flush(); err != nil {
				return err
			}
		}
		head, payload, err := g.frames.peek()
		if err != nil {
			return err
		}
		ended, err := g.take(head, payload)
		if err != nil {
			return err
		}
		for _, c := range ended {
			if now := g.now(); now < g.until && !g.frames.exhausted() {
				g.send(c, now)
			}
		}
	}
	return nil
}

// openLoop sends calls when they are due, and reads answers on a goroutine of its own.
func (g *grpcConn) openLoop(ctx context.Context) error {
	g.free = make(chan *grpcCall, g.depth())
	for i := range g.depth() {
		g.free <- &grpcCall{number: uint32(i)}
	}
	ctx, broken := context.WithCancelCause(ctx)
	received := make(chan error, 1)
	go func() {
		err := g.receive()
		broken(err)
		received <- err
	}()
	err := g.sendDue(ctx)
	g.mu.Lock()
	g.finished = true
	if len(g.calls) == 0 || err != nil {
		_ = g.frames.conn.SetReadDeadline(time.Now()) // ends receive; a connection takes it
	}
	g.mu.Unlock()
	return errors.Join(err, <-received)
}

// sendDue sends calls until the run is over or the connection breaks.
func (g *grpcConn) sendDue(ctx context.Context) error {
	pace, err := newPace(g.run)
	if err != nil {
		return err
	}
	defer pace.close()
	for {
		var c *grpcCall
		select {
		case <-ctx.Done():
			return nil // receive knows why
		case c = <-g.free:
		}
		sent, ok := pace.next(&g.late)
		if !ok {
			return nil
		}
		if err := g.sendNow(c, sent); err != nil {
			return err
		}
	}
}

func (g *grpcConn) sendNow(c *grpcCall, sent time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frames.exhausted() {
		return errGoAway
	}
	g.send(c, sent)
	return g.frames.flush()
}

// receive reads until nothing more is sent and every call has its answer.
func (g *grpcConn) receive() error {
	for {
		head, payload, err := g.frames.peek()
		g.mu.Lock()
		done := g.finished && len(g.calls) == 0
		if err == nil {
			err = g.receiveFrame(head, payload)
			done = g.finished && len(g.calls) == 0
		}
		g.mu.Unlock()
		if done {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (g *grpcConn) receiveFrame(head, payload []byte) error {
	ended, err := g.take(head, payload)
	if err != nil {
		return err
	}
	for _, c := range ended {
		g.free <- c
	}
	if len(g.frames.out) > 0 {
		return g.frames.flush()
	}
	return nil
}
