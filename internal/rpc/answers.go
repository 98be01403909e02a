package rpc

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Answers bounds the memory of the answers that are being sent, in bytes, and the time that they take. Clients may ask for
// many large answers and read none. Safe for concurrent use.
type Answers struct {
	gate    *Shared
	timeout time.Duration
}

// NewAnswers returns the bound. The gate has room for the messages of all answers, and timeout is how long each write may
// take.
func NewAnswers(gate *Shared, timeout time.Duration) *Answers { return &Answers{gate, timeout} }

// answerRoomKey is the key of a request's answerRoom in its context.
type answerRoomKey struct{}

// answerRoom is what an answer holds of the gate.
type answerRoom struct {
	gate gated
	most int64
	held int64
}

// enter takes room for so many bytes.
func (a *answerRoom) enter(ctx context.Context, bytes int64) error {
	if bytes = min(bytes, a.most-a.held); bytes <= 0 {
		return nil
	}
	if a.gate.TryEnter(ctx, bytes) != nil {
		return ErrHeavy
	}
	a.held += bytes
	return nil
}

func (a *answerRoom) leave() {
	if a.held > 0 {
		a.gate.Leave(a.held)
		a.held = 0
	}
}

// EnterAnswer takes room for so many bytes of an answer to the call of ctx, before they are made. The room is given back
// when the answer was sent. Its error is ErrHeavy.
func EnterAnswer(ctx context.Context, bytes int64) error {
	if a, ok := ctx.Value(answerRoomKey{}).(*answerRoom); ok {
		return a.enter(ctx, bytes)
	}
	return nil
}

// Before passes requests to next, whose handlers have the option WeighAnswers.
func (a *Answers) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		room := &answerRoom{gate: a.gate.of(peerOf(r)), most: a.gate.capacity / 2}
		defer room.leave()
		timely := &timelyWriter{w, http.NewResponseController(w), a.timeout}
		defer timely.begin() // for what is still to be sent
		next.ServeHTTP(timely, r.WithContext(context.WithValue(r.Context(), answerRoomKey{}, room)))
	})
}

// WeighAnswers returns the option of handlers behind an Answers by which unary answers take their room before they are
// encoded.
func WeighAnswers() connect.HandlerOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err != nil {
				return res, err
			}
			if m, ok := res.Any().(proto.Message); ok {
				if size := int64(proto.Size(m)); size > FreeBytes {
					err = EnterAnswer(ctx, size)
				}
			}
			if err != nil {
				return nil, err
			}
			return res, nil
		}
	}))
}

// timelyWriter gives each write the same time. Between writes a stream has no deadline: over HTTP/2 it would end there. A
// writer that has no deadlines (a test's recorder) has no slow peer.
type timelyWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// begin sets the deadline of the next write.
func (w *timelyWriter) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// within is begin, and returns what ends the deadline.
func (w *timelyWriter) within() (over func()) {
	w.begin()
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}

// Write writes the next bytes.
func (w *timelyWriter) Write(p []byte) (int, error) {
	defer w.within()()
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written.
func (w *timelyWriter) Flush() {
	defer w.within()()
	_ = w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *timelyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
