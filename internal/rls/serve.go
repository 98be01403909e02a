package rls

import (
	"context"
	"sync"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// ServiceName is what health and reflection call the service.
const ServiceName = "envoy.service.ratelimit.v3.RateLimitService"

// Service decides requests. Safe for concurrent use.
type Service interface {
	// ShouldRateLimit puts one status for each of the request's checks into the response,
	// in their order. It keeps neither of them, nor a string of the request, once it has
	// returned without an error. Its error is a status of gRPC, or what an interceptor
	// makes one of.
	ShouldRateLimit(ctx context.Context, in *Request, out *Response) error
}

// Register lets a gRPC server serve the protocol. The server's codec has to hand messages
// that read and write themselves their bytes: DecodeFrom and Encode.
func Register(server grpc.ServiceRegistrar, service Service) {
	calls := newCalls(service)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*Service)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: calls.handle}},
		Metadata:    ratelimitv3.RateLimitService_ServiceDesc.Metadata,
	}, service)
}

// Limits of what a call may keep for the next one.
const (
	maxKeptBytes  = 16 << 10
	maxKeptChecks = 64
)

// calls lends calls, and takes them back once they are answered.
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

// call is one call, request and answer in one: it reads itself from the bytes that came,
// and writes itself as the bytes that go. One that fails is not used again, since what it
// was handed to may hold on to it.
type call struct {
	calls   *calls
	service Service
	run     grpc.UnaryHandler // decide, bound once
	data    []byte
	in      Request
	out     Response
}

// decide is what the interceptor, if there is one, goes around.
func (c *call) decide(ctx context.Context, _ any) (any, error) {
	if err := c.service.ShouldRateLimit(ctx, &c.in, &c.out); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodeFrom reads the request. What is wrong with it is told by Request.Checks: gRPC
// would answer that the server failed.
func (c *call) DecodeFrom(data mem.BufferSlice) error {
	n := data.Len()
	if cap(c.data) < n {
		c.data = make([]byte, n)
	}
	c.data = c.data[:n]
	data.CopyTo(c.data)
	_ = c.in.Decode(c.data) // kept by the request
	return nil
}

// pooledBytes is the least that gRPC takes back into its pool.
const pooledBytes = 1 << 11

// Encode writes the answer, which ends the call.
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
