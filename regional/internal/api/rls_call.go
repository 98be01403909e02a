package api

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"aliquot/internal/checkwire"
	"aliquot/internal/envoyrls"
	"aliquot/internal/rpc"
	"aliquot/regional/internal/charge"
)

// register makes a gRPC server serve Envoy's protocol. Its codec must call the methods DecodeFrom and Encode
// of messages that have them.
func (e *envoyService) register(server grpc.ServiceRegistrar) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: envoyrls.ServiceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: envoyrls.Method, Handler: e.shouldRateLimit}},
		Metadata:    envoyrls.Metadata,
	}, e)
}

// Limits of the memory that a call keeps for the next one.
const (
	maxKeptBytes    = 16 << 10
	maxKeptRequests = 64
)

// envoyCall is one call of Envoy's protocol: its message, its answer, and the memory that it takes to decide
// it. gRPC decodes the message into it and encodes the answer from it. A call that ended in an error is not
// used again, because the code that it was passed to, or a call to the store, may still hold it.
type envoyCall struct {
	data      []byte // the message; the strings of in point into it
	in        envoyrls.Request
	out       envoyrls.Response
	requests  []charge.Request
	latest    checkwire.Answer
	strictest checkwire.Answer // of the answers so far
	kept      *sync.Pool       // where Encode puts it
	refused   error            // why the message was not read
	weight
}

// call returns a call without a message.
func (e *envoyService) call() *envoyCall {
	if c, _ := e.kept.Get().(*envoyCall); c != nil {
		return c
	}
	return &envoyCall{kept: &e.kept}
}

// DecodeFrom decodes the message. It always returns nil, and checks returns the error: gRPC would report an
// error from here as a failure of the server.
func (c *envoyCall) DecodeFrom(data mem.BufferSlice, weights *rpc.Gate) error {
	n := data.Len()
	if c.refused = c.weigh(weights, n); c.refused != nil {
		return nil
	}
	if cap(c.data) < n {
		c.data = make([]byte, n)
	}
	c.data = c.data[:n]
	data.CopyTo(c.data)
	_ = c.in.Decode(c.data) // Checks returns the error
	return nil
}

// checks returns the checks of the message, or why there are none.
func (c *envoyCall) checks() ([]envoyrls.Check, error) {
	if c.refused != nil {
		return nil, c.refused
	}
	return c.in.Checks()
}

// Encode encodes the answer. The call must not be used afterwards.
func (c *envoyCall) Encode() (mem.BufferSlice, error) {
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(leastPooled)
	*buffer = c.out.Append((*buffer)[:0])
	c.done()
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}

// done keeps the memory for the next call, unless it is too large.
func (c *envoyCall) done() {
	if cap(c.data) > maxKeptBytes || cap(c.requests) > maxKeptRequests || cap(c.out.Statuses) > maxKeptRequests {
		return
	}
	clear(c.requests) // they point into the message
	c.requests = c.requests[:0]
	c.out.Reset()
	c.kept.Put(c)
}
