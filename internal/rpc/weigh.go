package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

// Bounds by which messages are weighed before they are read.
const (
	// FreeBytes is the largest message that is not weighed. There are only as many such messages as
	// calls.
	FreeBytes = 4 << 10
	// MemoryOf is how many bytes of memory one byte of a message can become.
	MemoryOf = 8
	// weighStep is how many bytes are weighed at once of a message without a known length.
	weighStep = 64 << 10
	// maxGzipRatio is how many bytes gzip can make of one byte.
	maxGzipRatio = 1032
)

// ErrHeavy is the error of a call whose message finds no room.
var ErrHeavy = connect.NewError(connect.CodeResourceExhausted, errors.New(
	"the messages of all calls together are too large for now; send smaller ones, fewer at a time, or later"))

// Weigh passes requests to next if gate has room for their messages, in bytes of memory. A message
// with a known length takes its room before it is read, and any other one while it is read. A
// compressed message takes the room of what it can become, at most most bytes. The room is given
// back when next returns.
func Weigh(gate *Gate, most int64, next http.Handler) http.Handler {
	return weigh(func(string) gated { return gate }, gate.capacity, most, next)
}

// WeighByPeer is Weigh for a gate of which no peer may take more than a half: one that announces large messages and does
// not send them leaves room for others.
func WeighByPeer(gate *Shared, most int64, next http.Handler) http.Handler {
	return weigh(gate.of, gate.capacity/2, most, next)
}

// gated is a gate, or a peer's way to it.
type gated interface {
	TryEnter(ctx context.Context, size int64) error
	Leave(size int64)
}

// weigh is Weigh with the gate that of returns for a peer, of which a message takes at most room.
func weigh(of func(peer string) gated, room, most int64, next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size == 0 || size > 0 && size <= FreeBytes && !packed(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		if packed(r.Header) {
			if size < 0 || size > most/maxGzipRatio {
				size = most
			} else {
				size *= maxGzipRatio
			}
		}
		body := &weighed{ReadCloser: r.Body, gate: of(peerOf(r)), most: room, ctx: r.Context()}
		defer body.leave()
		if size > 0 {
			if body.weigh(min(size, most)) != nil {
				_ = refusals.Write(w, r, ErrHeavy) // an error means that the peer has gone
				return
			}
		}
		next.ServeHTTP(w, WithBody(r, body))
	})
}

// packed reports whether a request is compressed.
func packed(h http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
		if of := h[name]; len(of) > 0 && of[0] != "" && of[0] != "identity" {
			return true
		}
	}
	return false
}

// weighed is a body that takes room for the bytes that are read from it.
type weighed struct {
	io.ReadCloser
	gate    gated
	most    int64 // units that it may hold
	ctx     context.Context
	read    int64
	granted int64 // number of the message's bytes that have room
	held    int64 // units held of the gate
}

// Read implements io.Reader. Its error is ErrHeavy if there is no room.
func (b *weighed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > max(b.granted, FreeBytes) {
		if b.weigh(max(weighStep, b.read-b.granted)) != nil {
			return 0, ErrHeavy
		}
	}
	return n, err
}

// weigh takes room for that many more bytes.
func (b *weighed) weigh(bytes int64) error {
	units := min(bytes*MemoryOf, b.most-b.held)
	if err := b.gate.TryEnter(b.ctx, units); err != nil {
		return fmt.Errorf("weigh a message: %w", err)
	}
	b.granted, b.held = b.granted+bytes, b.held+units
	return nil
}

func (b *weighed) leave() {
	if b.held > 0 {
		b.gate.Leave(b.held)
	}
}
