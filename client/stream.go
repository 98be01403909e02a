package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	// maxAsked is how many requests go into one message at most; more wait for the next.
	maxAsked = 256
	// maxPending bounds the requests that are not answered yet; further callers wait.
	maxPending = 16 << 10
	// pingAfter finds a daemon that is gone without a word.
	pingAfter   = 20 * time.Second
	pingTimeout = 5 * time.Second
)

var errClosed = connect.NewError(connect.CodeCanceled, errors.New("the client is closed"))

// streamed asks over one stream of gRPC, and opens another one when that has ended. What
// is asked while a message is on its way out goes into the next one, so a process that
// asks more has longer messages and waits no longer. Safe for concurrent use.
type streamed struct {
	conn    *grpc.ClientConn
	calls   aliquotv1.LimiterServiceClient
	context context.Context // of all streams
	close   context.CancelFunc
	slots   chan struct{} // one for each request that is pending

	mu   sync.Mutex
	live *liveStream // nil: none is open
}

func newStreamed(address string) (*streamed, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: restAfter / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: restAfter},
			MinConnectTimeout: restAfter,
		}))
	if err != nil {
		return nil, fmt.Errorf("client: stream to %q: %w", address, err)
	}
	s := &streamed{conn: conn, calls: aliquotv1.NewLimiterServiceClient(conn), slots: make(chan struct{}, maxPending)}
	s.context, s.close = context.WithCancel(context.Background())
	return s, nil
}

func (s *streamed) Close() error {
	s.close()
	return s.conn.Close()
}

// Check decides one request.
func (s *streamed) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, connectError(ctx.Err())
	}
	stream, err := s.open()
	if err != nil {
		return nil, err
	}
	id, answered, err := stream.ask(in)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		return outcome(a)
	case <-ctx.Done():
		stream.forget(id)
		return nil, connectError(ctx.Err())
	case <-stream.ended:
	}
	select {
	case a := <-answered: // it came just before the end
		return outcome(a)
	default:
		return nil, stream.err
	}
}

// sealed is a request that is written already: a message whose fields nobody knows, and
// which marshals to their bytes. It may leave when its caller is gone and has changed the
// one that it is of.
func sealed(in *aliquotv1.CheckRequest) (*aliquotv1.CheckRequest, error) {
	raw, err := proto.Marshal(in)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	out := new(aliquotv1.CheckRequest)
	out.ProtoReflect().SetUnknown(raw)
	return out, nil
}

// outcome is what a call of its own would have returned.
func outcome(a *aliquotv1.StreamedAnswer) (*aliquotv1.CheckResponse, error) {
	if a.GetError() != "" || a.GetResponse() == nil {
		return nil, connect.NewError(connect.Code(a.GetCode()), errors.New(a.GetError()))
	}
	return a.GetResponse(), nil
}

// open is the stream to ask over.
func (s *streamed) open() (*liveStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.context.Err() != nil {
		return nil, errClosed
	}
	if s.live == nil {
		l := &liveStream{pending: map[uint64]chan<- *aliquotv1.StreamedAnswer{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
		s.live = l
		go s.run(l)
	}
	return s.live, nil
}

// run opens the stream and serves it until it ends.
func (s *streamed) run(l *liveStream) {
	ctx, cancel := context.WithCancel(s.context)
	defer cancel()
	stream, err := s.calls.CheckStream(ctx)
	if err == nil {
		received := make(chan error, 1)
		go func() { received <- l.receive(stream) }()
		if err = l.send(stream, received); err == nil {
			err = errors.New("the stream ended")
		}
	}
	s.mu.Lock()
	s.live = nil
	s.mu.Unlock()
	l.err = connectError(err)
	close(l.ended)
}

// connectError is an error of gRPC, or of a context, as the rest of the client knows it.
func connectError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = status.FromContextError(err).Err()
	}
	return connect.NewError(connect.Code(status.Code(err)), err)
}

// liveStream is one stream.
type liveStream struct {
	wake  chan struct{} // there is something in queue; room for one
	ended chan struct{} // closed at the end; err says why then
	err   error

	mu      sync.Mutex
	last    uint64 // id
	queue   []*aliquotv1.StreamedCheck
	pending map[uint64]chan<- *aliquotv1.StreamedAnswer
}

// ask puts a request into the queue, sealed.
func (l *liveStream) ask(in *aliquotv1.CheckRequest) (id uint64, answered <-chan *aliquotv1.StreamedAnswer, err error) {
	if in, err = sealed(in); err != nil {
		return 0, nil, err
	}
	answer := make(chan *aliquotv1.StreamedAnswer, 1)
	l.mu.Lock()
	l.last++
	id = l.last
	l.pending[id] = answer
	l.queue = append(l.queue, &aliquotv1.StreamedCheck{Id: id, Request: in})
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return id, answer, nil
}

// forget drops a request whose caller is gone; it may have left already. While nothing can
// be sent the queue is rid of such requests here, seldom enough that forgetting one takes
// no longer the longer the queue is.
func (l *liveStream) forget(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, id)
	if len(l.queue) > maxAsked+2*len(l.pending) {
		l.queue = slices.DeleteFunc(l.queue, func(r *aliquotv1.StreamedCheck) bool { return !l.waits(r) })
	}
}

// waits reports whether a caller still waits for the answer to a request. The caller holds mu.
func (l *liveStream) waits(r *aliquotv1.StreamedCheck) bool {
	_, waits := l.pending[r.GetId()]
	return waits
}

// next takes what is to be sent in one message, less what nobody waits for any more.
func (l *liveStream) next() []*aliquotv1.StreamedCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*aliquotv1.StreamedCheck
	for size := 0; len(l.queue) > 0 && len(out) < maxAsked && size < maxMessage; {
		if l.waits(l.queue[0]) {
			out = append(out, l.queue[0])
			size += fieldBytes + len(l.queue[0].GetRequest().ProtoReflect().GetUnknown())
		}
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	return out
}

// send writes what is asked until the stream ends.
func (l *liveStream) send(stream aliquotv1.LimiterService_CheckStreamClient, received <-chan error) error {
	for {
		select {
		case err := <-received:
			return err
		case <-l.wake:
		}
		for requests := l.next(); len(requests) > 0; requests = l.next() {
			if stream.Send(&aliquotv1.CheckStreamRequest{Requests: requests}) != nil {
				return <-received // why is told there
			}
		}
	}
}

// receive hands out the answers until the stream ends.
func (l *liveStream) receive(stream aliquotv1.LimiterService_CheckStreamClient) error {
	for {
		out, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, a := range out.GetAnswers() {
			l.mu.Lock()
			answered := l.pending[a.GetId()]
			delete(l.pending, a.GetId())
			l.mu.Unlock()
			if answered != nil {
				answered <- a
			}
		}
	}
}
