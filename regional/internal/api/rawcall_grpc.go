package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"aliquot/internal/rpc"
	"aliquot/internal/stack"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// leastPooled is above the size that grpc-go copies and does not pool. So a reply is always written
// from a buffer that is used again.
const leastPooled = 1<<10 + 1

// grpcHandler returns the method Check or CheckBatch over gRPC. Its answers are those of grpcErrors
// and an envelope.
func grpcHandler(s *Service, of kind) grpc.MethodHandler {
	procedure := aliquotv1connect.LimiterServiceCheckProcedure
	if of == batch {
		procedure = aliquotv1connect.LimiterServiceCheckBatchProcedure
	}
	return func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (out any, err error) {
		stack.Grow()
		s.calls.Add(1)
		defer func() {
			s.calls.Add(-1)
			if cause := recover(); cause != nil {
				out, err = nil, grpcError(s.panics.Caught(procedure, cause))
			}
		}()
		x := s.rawCalls.take(of)
		defer x.leave()
		if err := receive(x); err != nil {
			return nil, err
		}
		if x.unreadable != nil {
			return nil, unreadable(x.unreadable)
		}
		if err := s.serve(ctx, x); err != nil {
			return nil, grpcError(err)
		}
		return x, nil
	}
}

// decode reads a request from gRPC's buffers. weights bounds its memory; nil: nothing does. It leaves errors to the handler, because gRPC
// would answer that the server failed.
func (x *rawCall) decode(data mem.BufferSlice, weights *rpc.Gate) error {
	if x.unreadable = x.weigh(weights, data.Len()); x.unreadable != nil {
		return nil
	}
	for _, part := range data {
		x.message = append(x.message, part.ReadOnlyData()...)
	}
	x.unreadable = x.read()
	return nil
}

// Encode returns the reply in a buffer of gRPC's, and ends the use of the call.
func (x *rawCall) Encode() (mem.BufferSlice, error) {
	defer x.done()
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(max(len(x.reply), leastPooled))
	*buffer = (*buffer)[:copy(*buffer, x.reply)]
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}
