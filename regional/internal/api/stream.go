package api

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
	"aliquot/regional/internal/overload"
)

// maxStreamed is how many messages of one stream are decided at a time. It suffices to keep a store
// busy that takes a millisecond. It also bounds the memory that a client can use here when it sends
// and does not read. The next message is read when one of these has been answered; until then the
// connection's flow control holds the client back.
const maxStreamed = 32

// errStopping ends streams. Clients open another one, on another daemon or later.
var errStopping = connect.NewError(connect.CodeUnavailable, errors.New("the daemon is stopping; open another stream"))

// errThrottled ends the streams of a connection on which too many checks were denied and none
// passed.
var errThrottled = connect.NewError(connect.CodeUnavailable, errors.New("this connection is closed: it got nothing but denials; wait as the answers say"))

// streamConn is one stream over gRPC or Connect. One goroutine may send while another one receives.
type streamConn interface {
	// receive reads a message. It returns io.EOF if there are no more.
	receive(x *rawCall) error
	// send writes the reply of a call. The call must not be used afterwards.
	send(x *rawCall) error
	// abandon makes a send under way fail at once. It returns false if that happens only when the
	// call returns; then the call may return while the send is under way.
	abandon() bool
	// peer returns the client's address.
	peer() string
}

// stream is one call of CheckStream under way.
type stream struct {
	service *Service
	conn    streamConn
	slots   chan struct{} // holds one value for each message that is being decided
	ended   chan error    // the reason why the stream ends; its buffer holds one, the first
	unread  chan struct{} // closed when the client does not read while other streams need its memory
	sending sync.Mutex
	turn    atomic.Uint64 // is incremented when a send begins and when it ends, so it is odd during a send
}

// checkStream decides the messages of a stream until the client sends no more, an error occurs, or
// the daemon stops. The messages read by then are answered first, except after an error. Its error
// is an RPC error.
//
// After it has returned nothing is sent, because over HTTP the response may then belong to another
// call. gRPC keeps its streams apart: there a send under way to a client that does not read fails
// at that time.
func (s *Service) checkStream(ctx context.Context, conn streamConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &stream{service: s, conn: conn, slots: make(chan struct{}, maxStreamed), ended: make(chan error, 1), unread: make(chan struct{})}
	s.quota.open(one)
	defer s.quota.close(one)
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

// failed reports whether err, with which a stream ended, is a failure.
func failed(err error) bool { return err != io.EOF && err != errStopping }

// finish waits until no message is being decided, and calls hurry after a failure. It returns the
// first failure, or otherwise the reason why the stream ended. It does not wait for a client that
// does not read and whose stream has to end.
func (s *stream) finish(err error, hurry func()) error {
	unread := s.unread
	for taken := 0; taken < maxStreamed; { // with all slots taken no other message begins
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
			s.service.quota.tell(s)
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

// worse returns the reason that counts if a stream ended with err and then with next: the first
// failure.
func worse(err, next error) error {
	if failed(err) || !failed(next) {
		return err
	}
	return next
}

// end ends the stream with err, unless it has already ended.
func (s *stream) end(err error) {
	select {
	case s.ended <- err:
	default:
	}
}

// read reads the messages of the stream, and has each one decided in a goroutine of its own.
func (s *stream) read(ctx context.Context) {
	defer s.recovered()
	for {
		x := s.service.rawCalls.take(streamed)
		if err := s.conn.receive(x); err != nil {
			x.leave()
			s.end(err)
			return
		}
		if overload.Ending(ctx) {
			x.leave()
			s.end(errThrottled)
			return
		}
		takes := s.service.quota.size(x)
		err := s.service.quota.take(ctx, takes)
		if x.leave(); err != nil {
			s.end(err)
			return
		}
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			s.service.quota.give(takes)
			s.end(rpcCodes.Error(ctx.Err()))
			return
		}
		go s.decide(ctx, x, takes)
	}
}

// recovered ends the stream after a panic. The servers do not recover the panics of its goroutines.
func (s *stream) recovered() {
	if cause := recover(); cause != nil {
		s.end(s.service.panics.Caught(aliquotv1connect.LimiterServiceCheckStreamProcedure, cause))
	}
}

// decide answers one message, which has taken that much of the quota.
func (s *stream) decide(ctx context.Context, x *rawCall, takes int64) {
	defer func() { <-s.slots }()
	defer func() { s.service.quota.give(takes) }()
	defer s.recovered()
	err := rpcCodes.Error(ctx.Err()) // a stream that has failed charges nothing more
	if err == nil {
		err = s.service.serve(ctx, x)
	}
	if err == nil {
		if more := int64(len(x.reply) - answerRoom*len(x.requests.All)); more > 0 {
			s.service.quota.give(-more)
			takes += more
		}
		err = s.send(ctx, x)
	}
	if err != nil {
		s.end(err)
	}
}

// send sends a reply when no other send is under way, unless the stream has failed by then.
func (s *stream) send(ctx context.Context, x *rawCall) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if ctx.Err() != nil {
		return rpcCodes.Error(ctx.Err())
	}
	s.turn.Add(1)
	defer s.turn.Add(1)
	return s.conn.send(x)
}

// grpcStream is a stream over gRPC.
type grpcStream struct{ grpc.ServerStream }

func (g grpcStream) receive(x *rawCall) error {
	if err := g.RecvMsg(x); err != nil {
		return err
	}
	if x.unreadable != nil {
		return unreadable(x.unreadable)
	}
	return nil
}

func (g grpcStream) send(x *rawCall) error { return g.SendMsg(x) }

// abandon returns false: gRPC ends a send under way when the handler returns.
func (g grpcStream) abandon() bool { return false }

// grpcStreamHandler returns the handler of CheckStream over gRPC.
func grpcStreamHandler(s *Service) grpc.StreamHandler {
	return func(_ any, g grpc.ServerStream) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = grpcError(s.panics.Caught(aliquotv1connect.LimiterServiceCheckStreamProcedure, cause))
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

// connectService is the service over Connect, whose streams have their own handler.
type connectService struct{ *Service }

// CheckStream exists because the generated handler needs it. handleCalls serves the streams.
func (connectService) CheckStream(context.Context, *connect.BidiStream[aliquotv1.CheckStreamRequest, aliquotv1.CheckStreamResponse]) error {
	return connect.NewError(connect.CodeUnimplemented, errors.New("served by another handler"))
}

// connectStream is a stream over Connect, or one over gRPC on Connect's listener.
type connectStream struct {
	*connect.BidiStream[streamCall, streamCall]
	response *http.ResponseController
}

func (c connectStream) receive(x *rawCall) error {
	in, err := c.Receive()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return err
	case in.rawCall == nil: // connect does not call the codec for an empty message
		return x.read()
	}
	*x = *in.rawCall
	return nil
}

func (c connectStream) send(x *rawCall) error { return c.Send(&streamCall{x}) }

// abandon resets the stream. The response belongs to another call once the handler has returned, so
// no goroutine may be writing to it then.
func (c connectStream) abandon() bool {
	_ = c.response.SetWriteDeadline(time.Now()) // HTTP/2 has a deadline; without it checkStream waits for the client
	return true
}

func (c connectStream) peer() string { return c.Peer().Addr }

// responseKey is the key of the response controller in a stream's context.
type responseKey struct{}

// responseOf returns the controller of the response of a stream that unhurried has wrapped.
func responseOf(ctx context.Context) *http.ResponseController {
	return ctx.Value(responseKey{}).(*http.ResponseController)
}

// unhurried lets a stream be read for as long as it is open. The server's read timeout is meant for
// calls, whose bodies end.
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
