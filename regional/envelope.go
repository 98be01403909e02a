package regional

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// grpc-go answers a message that cannot be read (invalid UTF-8, say) with an
// internal error, which blames the server for what the client sent, and does so
// before any interceptor. Here such a message is invalid_argument, as over Connect:
// the handler asks for an envelope, whose codec keeps the error instead of failing.

// envelope is a message with the error of reading it.
type envelope struct {
	message any
	err     error
}

// decoder is a message that reads itself, from bytes that are gone afterwards, and keeps
// what is wrong with them for its handler.
type decoder interface {
	DecodeFrom(data mem.BufferSlice) error
}

// encoder is a message that writes itself. It is not used afterwards.
type encoder interface {
	Encode() (mem.BufferSlice, error)
}

// envelopeCodec fills envelopes, lets messages read and write themselves that can, and
// does everything else as usual.
type envelopeCodec struct{ encoding.CodecV2 }

// Marshal writes v.
func (c envelopeCodec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(encoder); ok {
		return e.Encode()
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads data into v.
func (c envelopeCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case decoder:
		return m.DecodeFrom(data)
	case *envelope:
		m.err = c.CodecV2.Unmarshal(data, m.message)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// envelopeRegistrar registers services whose requests come in envelopes, but for the
// methods that have a handler of their own, as streams all have.
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
				return handler(srv, ctx, func(in any) error { return open(receive, in) }, next)
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

func open(receive func(any) error, in any) error {
	e := envelope{message: in}
	if err := receive(&e); err != nil {
		return err
	}
	if e.err != nil {
		return unreadable(e.err)
	}
	return nil
}

func unreadable(err error) error {
	return status.Errorf(grpccodes.InvalidArgument, "the message cannot be read: %v", err)
}
