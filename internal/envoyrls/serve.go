package envoyrls

import (
	"context"
	"sync"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// ServiceName is the name of the service for health and reflection.
const ServiceName = "envoy.service.ratelimit.v3.RateLimitService"

// Service decides requests. Safe for concurrent use.
type Service interface {
	// ShouldRateLimit appends one status for each of the request's checks to the response, in their
	// order. After it has returned without an error it holds neither of them, nor a string of the
	// request. Its error is a gRPC status, or an error that an interceptor converts to one.
	ShouldRateLimit(ctx context.Context, in *Request, out *Response) error
}

// Register makes a gRPC server serve the protocol. For messages with the methods DecodeFrom and
// Encode, the server's codec must call these with the bytes.
func Register(server grpc.ServiceRegistrar, service Service) {
	calls := newCalls(service)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*Service)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: calls.handle}},
		Metadata:    ratelimitv3.RateLimitService_ServiceDesc.Metadata,
	}, service)
}

// Limits of the memory that a call keeps for the next one.
const (
	maxKeptBytes  = 16 << 10
	maxKeptChecks = 64
)

// calls is a pool of calls.
type calls struct {
	pool sync.Pool
	info grpc.UnaryServerInfo
}

func newCalls(service Service) *calls {
	c := &calls{info: grpc.UnaryServerInfo{Server: service, FullMethod: ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}}
	c.pool.New = func() any {
		new := &call{calls: c, service: service}
		new.run = new.decide
		return new
	}
	return c
}

// handle is the handler of ShouldRateLimit.
func (c *calls) handle(_ any, ctx context.Context, receive func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
	one := c.pool.Get().(*call)
	if err := receive(one); err != nil {
		return nil, err
	}
	if next == nil {
		return one.run(ctx, one)
	}
	return next(ctx, one, &c.info, one.run)
}

// call is one call, with its request and its answer: it decodes itself from the request's bytes and
// encodes itself as the answer's bytes. A call that fails is not reused, because the code that it
// was passed to may still hold it.
type call struct {
	calls   *calls
	service Service
	run     grpc.UnaryHandler // the method decide, bound once
	data    []byte
	in      Request
	out     Response
}

// decide is the handler that an interceptor wraps, if there is one.
func (c *call) decide(ctx context.Context, _ any) (any, error) {
	if err := c.service.ShouldRateLimit(ctx, &c.in, &c.out); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodeFrom decodes the request. It always returns nil, and Request.Checks returns the error: gRPC
// would report an error from here as a failure of the server.
func (c *call) DecodeFrom(data mem.BufferSlice) error {
	n := data.Len()
	if cap(c.data) < n {
		c.data = make([]byte, n)
	}
	c.data = c.data[:n]
	data.CopyTo(c.data)
	_ = c.in.Decode(c.data) // Checks returns the error
	return nil
}

// pooledBytes is the smallest buffer that gRPC takes back into its pool.
const pooledBytes = 1 << 11

// Encode encodes the answer. The call must not be used afterwards.
func (c *call) Encode() (mem.BufferSlice, error) {
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(pooledBytes)
	*buffer = c.out.Append((*buffer)[:0])
	c.end()
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}

func (c *call) end() {
	if cap(c.data) > maxKeptBytes || cap(c.in.checks) > maxKeptChecks || cap(c.out.Statuses) > maxKeptChecks {
		return
	}
	c.out.Reset()
	c.calls.pool.Put(c)
}
