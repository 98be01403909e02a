package api

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"aliquot/internal/rpc"
)

// grpc-go answers an unreadable message (with invalid UTF-8, for example) with an internal error.
// That blames the server for the client's fault, and happens before any interceptor runs. Here such
// a message is invalid_argument, as over Connect: the handler asks for an envelope, whose codec
// keeps the error instead of failing.

// envelope is a message with the error of reading it.
type envelope struct {
	message any
	err     error
	weight
}

// weight is what a message holds of the memory of all messages over gRPC. The zero value holds none.
type weight struct {
	gate *rpc.Gate
	size int64
}

// weigh waits for the memory of a message of n bytes. gate bounds it; nil: nothing does. The error is
// rpc.ErrNoMemory.
func (w *weight) weigh(gate *rpc.Gate, n int) error {
	if n <= rpc.MaxUnweighed || gate == nil {
		return nil
	}
	size := int64(n) * memoryOf
	if gate.TryEnter(context.Background(), size) != nil {
		return rpc.ErrNoMemory
	}
	w.gate, w.size = gate, size
	return nil
}

// leave gives the memory back.
func (w *weight) leave() {
	if w.size > 0 {
		w.gate.Leave(w.size)
		w.size = 0
	}
}

// decoder is a message that takes the memory for itself, reads itself, and keeps the error for its handler. The
// bytes are gone afterwards.
type decoder interface {
	DecodeFrom(data mem.BufferSlice, weights *rpc.Gate) error
}

// encoder is a message that writes itself. It must not be used afterwards.
type encoder interface {
	Encode() (mem.BufferSlice, error)
}

// envelopeCodec fills envelopes, and lets decoders and encoders read and write themselves. All
// other messages it handles as usual.
type envelopeCodec struct {
	encoding.CodecV2
	weights *rpc.Gate // nil: messages are not weighed
}

// Marshal returns v as bytes.
func (c envelopeCodec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(encoder); ok {
		return e.Encode()
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads data into v.
func (c envelopeCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *rawCall:
		return m.decode(data, c.weights)
	case decoder:
		return m.DecodeFrom(data, c.weights)
	case *envelope:
		if m.err = m.weigh(c.weights, data.Len()); m.err == nil {
			m.err = c.CodecV2.Unmarshal(data, m.message)
		}
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// envelopeRegistrar registers services whose requests come in envelopes. Methods with a handler of
// their own, as all streams have, are exempt.
type envelopeRegistrar struct {
	server  *grpc.Server
	own     map[string]grpc.MethodHandler
	streams map[string]grpc.StreamHandler
}

// RegisterService registers a copy of the description with other handlers.
func (r envelopeRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	enveloped := *desc
	enveloped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		handler := m.Handler
		m.Handler = r.own[m.MethodName]
		if m.Handler == nil {
			m.Handler = func(srv any, ctx context.Context, receive func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
				var held weight
				defer held.leave()
				return handler(srv, ctx, func(in any) (err error) {
					held, err = open(receive, in)
					return err
				}, next)
			}
		}
		enveloped.Methods[i] = m
	}
	enveloped.Streams = slices.Clone(desc.Streams)
	for i := range enveloped.Streams {
		enveloped.Streams[i].Handler = r.streams[desc.Streams[i].StreamName]
	}
	r.server.RegisterService(&enveloped, impl)
}

// open receives a message, and returns what it holds.
func open(receive func(any) error, in any) (held weight, err error) {
	e := envelope{message: in}
	err = receive(&e)
	switch {
	case err != nil:
	case e.err != nil:
		err = unreadable(e.err)
	}
	return e.weight, err
}

func unreadable(err error) error {
	if err == rpc.ErrNoMemory {
		return grpcError(err)
	}
	return status.Errorf(grpccodes.InvalidArgument, "the message cannot be read: %v", err)
}
