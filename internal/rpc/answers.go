package rpc

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Answers bounds the memory of the answers that are being sent, in bytes, and the time of each write: clients may ask for
// many large answers and read none. Safe for concurrent use.
type Answers struct {
	gate    *Shared
	timeout time.Duration
}

// NewAnswers returns the bound. The gate has room for the messages of all answers, and timeout is how long each write may
// take.
func NewAnswers(gate *Shared, timeout time.Duration) *Answers { return &Answers{gate, timeout} }

// answerQuotaKey is the key of a request's answerQuota in its context.
type answerQuotaKey struct{}

// answerQuota is what an answer holds of the gate, in bytes.
type answerQuota struct {
	gate  quota
	limit int64
	held  int64
}

// take takes memory for so many more bytes.
func (a *answerQuota) take(ctx context.Context, bytes int64) error {
	if bytes = min(bytes, a.limit-a.held); bytes <= 0 {
		return nil
	}
	if a.gate.TryEnter(ctx, bytes) != nil {
		return ErrNoMemory
	}
	a.held += bytes
	return nil
}

func (a *answerQuota) release() {
	if a.held > 0 {
		a.gate.Leave(a.held)
		a.held = 0
	}
}

// EnterAnswer takes memory for so many bytes of an answer to the call of ctx, before the caller makes them. The memory is
// given back when the answer has been sent. The error is ErrNoMemory.
func EnterAnswer(ctx context.Context, bytes int64) error {
	if a, ok := ctx.Value(answerQuotaKey{}).(*answerQuota); ok {
		return a.take(ctx, bytes)
	}
	return nil
}

// Before passes requests to next, whose handlers have the option WeighAnswers.
func (a *Answers) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		quota := &answerQuota{gate: a.gate.forPeer(peerOf(r)), limit: a.gate.capacity / 2}
		defer quota.release()
		writer := &deadlineWriter{w, http.NewResponseController(w), a.timeout}
		defer writer.begin() // for what is still to be sent
		next.ServeHTTP(writer, r.WithContext(context.WithValue(r.Context(), answerQuotaKey{}, quota)))
	})
}

// WeighAnswers returns the option of handlers behind an Answers with which unary answers take their memory before they
// are encoded.
func WeighAnswers() connect.HandlerOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err != nil {
				return res, err
			}
			if m, ok := res.Any().(proto.Message); ok {
				if size := int64(proto.Size(m)); size > MaxUnweighed {
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

// deadlineWriter gives each write the same time. Between writes it sets no deadline, because a deadline would end a stream
// over HTTP/2. A writer that knows no deadlines (a test's recorder) has no slow peer.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// begin sets the deadline of the next write.
func (w *deadlineWriter) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// deadline sets the deadline of the next write, and returns the function that ends it.
func (w *deadlineWriter) deadline() (over func()) {
	w.begin()
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}

// Write writes the next bytes.
func (w *deadlineWriter) Write(p []byte) (int, error) {
	defer w.deadline()()
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written.
func (w *deadlineWriter) Flush() {
	defer w.deadline()()
	_ = w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
