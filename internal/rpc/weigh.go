package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

// Constants of the memory that messages take before they are read.
const (
	// MaxUnweighed is the largest message in bytes that is not weighed. There are only as many such
	// messages as calls.
	MaxUnweighed = 4 << 10
	// MemoryPerByte is how many bytes of memory one byte of a message can become.
	MemoryPerByte = 8
	// weighStep is for how many bytes a message of unknown length takes memory at once.
	weighStep = 64 << 10
	// maxGzipRatio is how many bytes gzip can make of one byte.
	maxGzipRatio = 1032
)

// ErrNoMemory is the error of a call for whose message there is no memory. Its code is resource_exhausted.
var ErrNoMemory = connect.NewError(connect.CodeResourceExhausted, errors.New(
	"the messages of all calls together are too large for now; send smaller ones, fewer at a time, or later"))

// Weigh passes requests to next if gate has memory for their messages, in bytes. A message of known length takes its
// memory before it is read, and any other one while it is read. A compressed message takes the memory of what it can
// become, at most max bytes of message. Weigh gives the memory back when next returns.
func Weigh(gate *Gate, max int64, next http.Handler) http.Handler {
	return weigh(func(string) quota { return gate }, gate.capacity, max, next)
}

// WeighByPeer is Weigh for a gate of which no peer may take more than a half. So a peer that announces large messages and
// does not send them leaves memory for others.
func WeighByPeer(gate *Shared, max int64, next http.Handler) http.Handler {
	return weigh(gate.forPeer, gate.capacity/2, max, next)
}

// quota is a gate, or a peer's part of it.
type quota interface {
	TryEnter(ctx context.Context, size int64) error
	Leave(size int64)
}

// weigh is Weigh with the quota that forPeer returns. A message takes at most limit units of it.
func weigh(forPeer func(peer string) quota, limit, largest int64, next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size == 0 || size > 0 && size <= MaxUnweighed && !compressed(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		if compressed(r.Header) {
			if size < 0 || size > largest/maxGzipRatio {
				size = largest
			} else {
				size *= maxGzipRatio
			}
		}
		body := &weighedBody{ReadCloser: r.Body, gate: forPeer(peerOf(r)), limit: limit, ctx: r.Context()}
		defer body.release()
		if size > 0 {
			if body.weigh(min(size, largest)) != nil {
				_ = refusals.Write(w, r, ErrNoMemory) // an error means that the peer has gone
				return
			}
		}
		next.ServeHTTP(w, WithBody(r, body))
	})
}

// compressed reports whether a request is compressed.
func compressed(h http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
		if of := h[name]; len(of) > 0 && of[0] != "" && of[0] != "identity" {
			return true
		}
	}
	return false
}

// weighedBody is a body that takes memory for the bytes that are read from it.
type weighedBody struct {
	io.ReadCloser
	gate    quota
	limit   int64 // units that it may hold
	ctx     context.Context
	read    int64
	granted int64 // number of the message's bytes that have room
	held    int64 // units held of the gate
}

// Read implements io.Reader. Its error is ErrNoMemory if there is no memory.
func (b *weighedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > max(b.granted, MaxUnweighed) {
		if b.weigh(max(weighStep, b.read-b.granted)) != nil {
			return 0, ErrNoMemory
		}
	}
	return n, err
}

// weigh takes memory for that many more bytes of the message.
func (b *weighedBody) weigh(bytes int64) error {
	units := min(bytes*MemoryPerByte, b.limit-b.held)
	if err := b.gate.TryEnter(b.ctx, units); err != nil {
		keepStatus(b.ctx)
		return fmt.Errorf("weigh a message: %w", err)
	}
	b.granted, b.held = b.granted+bytes, b.held+units
	return nil
}

func (b *weighedBody) release() {
	if b.held > 0 {
		b.gate.Leave(b.held)
	}
}
