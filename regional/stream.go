package regional

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// maxStreamed is how many messages of one stream are decided at a time: enough to keep a
// store busy that takes a millisecond, and a bound on what a client can have here that
// sends and does not read. The next message is read when one of these is answered, and
// what waits in the connection holds the client up.
const maxStreamed = 32

// errStopping ends streams; clients open another one, elsewhere or later.
var errStopping = connect.NewError(connect.CodeUnavailable, errors.New("the daemon is stopping; open another stream"))

// errThrottled ends streams of a connection that heard nothing but denials, and too many
// of them.
var errThrottled = connect.NewError(connect.CodeUnavailable, errors.New("this connection is to end: it heard nothing but denials; wait as the answers say"))

// streamConn is one stream as gRPC or Connect has it. Sending and receiving may go on at
// the same time; each by itself is for one goroutine at a time.
type streamConn interface {
	// receive reads a message; io.EOF: there are no more.
	receive(x *exchange) error
	// send writes the reply of an exchange, which is done with then.
	send(x *exchange) error
	// abandon has what is being sent fail now; false if that fails when the call returns, for
	// which it may then.
	abandon() bool
	// peer is the client's address.
	peer() string
}

// stream is one call of CheckStream under way.
type stream struct {
	service *service
	conn    streamConn
	slots   chan struct{} // one for each message that is being decided
	ended   chan error    // why the stream ends; room for one, the first counts
	unread  chan struct{} // closed when the client does not read, and others want for room
	sending sync.Mutex
	turn    atomic.Uint64 // grows when a send begins and when it ends: odd in between
}

// checkStream decides what comes on a stream until the client sends no more, something
// fails, or the daemon stops. What was read by then is answered first, but for a failure.
// Nothing is sent once it has returned: a response over HTTP belongs to another call then. Of
// gRPC's, which knows its streams, what is being sent to a client that does not read fails then.
// Its error is one of RPC.
func (s *service) checkStream(ctx context.Context, conn streamConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &stream{service: s, conn: conn, slots: make(chan struct{}, maxStreamed), ended: make(chan error, 1), unread: make(chan struct{})}
	s.room.open(one)
	defer s.room.close(one)
	go one.read(ctx)
	var err error
	select {
	case err = <-one.ended:
	case <-one.unread:
		err = errUnread
	case <-s.stopping:
		err = errStopping
	}
	if err = one.finish(err, cancel); err == io.EOF {
		return nil
	}
	return err
}

// failed tells whether a stream that ended for that has failed.
func failed(err error) bool { return err != io.EOF && err != errStopping }

// finish waits until nothing is under way, and hurries it after a failure. It returns the
// first failure, or else why the stream ended. Nobody waits for a client that does not read
// and has to go.
func (s *stream) finish(err error, hurry func()) error {
	unread := s.unread
	for taken := 0; taken < maxStreamed; { // and with all slots taken nothing more begins
		if failed(err) {
			hurry()
		}
		select {
		case s.slots <- struct{}{}:
			taken++
		case next := <-s.ended:
			err = worse(err, next)
		case <-unread:
			unread, err = nil, worse(err, errUnread)
			hurry()
			s.service.room.tell(s)
			if !s.conn.abandon() {
				return err
			}
		}
	}
	select {
	case next := <-s.ended:
		err = worse(err, next)
	default:
	}
	return err
}

// worse is why a stream ends that has ended for one thing when it does for another.
func worse(err, next error) error {
	if failed(err) || !failed(next) {
		return err
	}
	return next
}

// end ends the stream, unless something did before.
func (s *stream) end(err error) {
	select {
	case s.ended <- err:
	default:
	}
}

// read takes messages off the stream, and lets each be decided by itself.
func (s *stream) read(ctx context.Context) {
	defer s.recovered()
	for {
		x := s.service.exchanges.take(streamed)
		if err := s.conn.receive(x); err != nil {
			s.end(err)
			return
		}
		if l := lineOf(ctx); l != nil && l.ending.Load() {
			s.end(errThrottled)
			return
		}
		takes := s.service.room.size(x)
		if err := s.service.room.take(ctx, takes); err != nil {
			s.end(err)
			return
		}
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			s.service.room.give(takes)
			s.end(rpcCodes.Error(ctx.Err()))
			return
		}
		go s.decide(ctx, x, takes)
	}
}

// recovered ends the stream after a panic: its goroutines are outside of what the servers
// recover.
func (s *stream) recovered() {
	if cause := recover(); cause != nil {
		s.end(s.service.panics.caught(aliquotv1connect.LimiterServiceCheckStreamProcedure, cause))
	}
}

// decide answers one message, which takes so much room.
func (s *stream) decide(ctx context.Context, x *exchange, takes int64) {
	defer func() { <-s.slots }()
	defer func() { s.service.room.give(takes) }()
	defer s.recovered()
	err := rpcCodes.Error(ctx.Err()) // a stream that has failed charges nothing more
	if err == nil {
		err = s.service.serve(ctx, x)
	}
	if err == nil {
		if more := int64(len(x.reply) - answerRoom*len(x.requests.All)); more > 0 {
			s.service.room.give(-more)
			takes += more
		}
		err = s.send(ctx, x)
	}
	if err != nil {
		s.end(err)
	}
}

// send sends a reply when it is its turn, unless the stream has failed by then.
func (s *stream) send(ctx context.Context, x *exchange) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if ctx.Err() != nil {
		return rpcCodes.Error(ctx.Err())
	}
	s.turn.Add(1)
	defer s.turn.Add(1)
	return s.conn.send(x)
}

// grpcStream is a stream of gRPC's.
type grpcStream struct{ grpc.ServerStream }

func (g grpcStream) receive(x *exchange) error {
	if err := g.RecvMsg(x); err != nil {
		return err
	}
	if x.unreadable != nil {
		return unreadable(x.unreadable)
	}
	return nil
}

func (g grpcStream) send(x *exchange) error { return g.SendMsg(x) }

// abandon reports false: gRPC ends what is being sent when the handler returns.
func (g grpcStream) abandon() bool { return false }

// grpcStreamHandler is CheckStream over gRPC.
func grpcStreamHandler(s *service) grpc.StreamHandler {
	return func(_ any, g grpc.ServerStream) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = grpcError(s.panics.caught(aliquotv1connect.LimiterServiceCheckStreamProcedure, cause))
			}
		}()
		return grpcError(s.checkStream(g.Context(), grpcStream{g}))
	}
}

func (g grpcStream) peer() string {
	if p, ok := peer.FromContext(g.Context()); ok {
		return p.Addr.String()
	}
	return ""
}

// connectService is the service over Connect, which has streams of its own.
type connectService struct{ *service }

// CheckStream is there because the generated handler wants it; handleCalls serves it.
func (connectService) CheckStream(context.Context, *connect.BidiStream[aliquotv1.CheckStreamRequest, aliquotv1.CheckStreamResponse]) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("served by another handler"))
}

// connectStream is a stream of Connect's, or one of gRPC's on Connect's listener.
type connectStream struct {
	*connect.BidiStream[streamCall, streamCall]
	response *http.ResponseController
}

func (c connectStream) receive(x *exchange) error {
	in, err := c.Receive()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return err
	case in.exchange == nil: // connect does not read a message of no bytes
		return x.read()
	}
	*x = *in.exchange
	return nil
}

func (c connectStream) send(x *exchange) error { return c.Send(&streamCall{x}) }

// abandon resets the stream: the response belongs to another call once the handler has
// returned, so nothing may be writing to it then.
func (c connectStream) abandon() bool {
	_ = c.response.SetWriteDeadline(time.Now()) // HTTP/2 has one; without it the client is waited for
	return true
}

func (c connectStream) peer() string { return c.Peer().Addr }

// responseKey is the key under which a stream's context has its response.
type responseKey struct{}

// responseOf controls the response of a stream that came through unhurried.
func responseOf(ctx context.Context) *http.ResponseController {
	return ctx.Value(responseKey{}).(*http.ResponseController)
}

// unhurried lets a stream be read for as long as it is open; the server's read timeout is
// for calls, whose bodies end.
func unhurried(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := http.NewResponseController(w)
		if r.ProtoMajor >= 2 { // Connect refuses a stream of both directions over HTTP/1.1
			_ = response.SetReadDeadline(time.Time{})
			_ = response.SetWriteDeadline(time.Time{})
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), responseKey{}, response)))
	})
}
