package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/internal/checkwire"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/charge"
)

// checkCall, batchCall and streamCall are the requests and responses of Check and CheckBatch, and
// the messages of CheckStream, over Connect. The codecs see by the type what to read. Without a
// rawCall the message is empty.
type (
	checkCall  struct{ *rawCall }
	batchCall  struct{ *rawCall }
	streamCall struct{ *rawCall }
)

// rawCodec reads and writes the messages of calls, and all other messages as usual.
type rawCodec struct {
	connect.Codec
	pool *rawCalls
	// binary: messages are protobuf, and a rawCall reads them by itself.
	binary bool
}

// compressFrom is the size from which a response is compressed for clients that accept it. A
// decision is smaller, and to compress it would cost more than all its other work.
const compressFrom = 1 << 10

// rawCallOptions returns the options of the handlers of calls.
func rawCallOptions(pool *rawCalls) connect.HandlerOption {
	json := rpc.JSON()
	return connect.WithHandlerOptions(
		connect.WithCodec(rawCodec{protoCodec{}, pool, true}),
		connect.WithCodec(rawCodec{json, pool, false}),
		connect.WithCodec(rawCodec{named{json, json.Name() + "; charset=utf-8"}, pool, false}),
		connect.WithCompressMinBytes(compressFrom),
	)
}

// handleCalls serves Check, CheckBatch and CheckStream, in place of the generated handlers. It returns mux with Check before
// it, because the search of a mux costs more than a hundredth of a check.
func handleCalls(mux *http.ServeMux, s *Service, weigh func(http.Handler) http.Handler, options ...connect.HandlerOption) http.Handler {
	methods := aliquotv1.File_aliquot_v1_limiter_proto.Services().ByName("LimiterService").Methods()
	options = append(options, rawCallOptions(&s.rawCalls))
	check := newPlainCalls(s, weigh(hideAddresses(connect.NewUnaryHandlerSimple(
		aliquotv1connect.LimiterServiceCheckProcedure,
		func(ctx context.Context, in *checkCall) (*checkCall, error) {
			err := s.serveCall(ctx, &in.rawCall, single)
			if err == nil {
				s.proxies.addHeaders(ctx, &in.answer)
			}
			return in, err
		},
		connect.WithSchema(methods.ByName("Check")), connect.WithHandlerOptions(options...)))))
	mux.Handle(aliquotv1connect.LimiterServiceCheckBatchProcedure, hurried(batchTimeout, weigh(hideAddresses(connect.NewUnaryHandlerSimple(
		aliquotv1connect.LimiterServiceCheckBatchProcedure,
		func(ctx context.Context, in *batchCall) (*batchCall, error) {
			return in, s.serveCall(ctx, &in.rawCall, batch)
		},
		connect.WithSchema(methods.ByName("CheckBatch")), connect.WithHandlerOptions(options...))))))
	mux.Handle(aliquotv1connect.LimiterServiceCheckStreamProcedure, unhurried(connect.NewBidiStreamHandler(
		aliquotv1connect.LimiterServiceCheckStreamProcedure,
		func(ctx context.Context, c *connect.BidiStream[streamCall, streamCall]) error {
			return s.checkStream(ctx, connectStream{c, responseOf(ctx)})
		},
		connect.WithSchema(methods.ByName("CheckStream")), connect.WithHandlerOptions(options...))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == aliquotv1connect.LimiterServiceCheckProcedure {
			check.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// batchTimeout is how long a batch may take until its answer has left, which is far more than its
// decision takes. Without it each call of a client that does not read would keep an answer of a
// thousand checks here, and HTTP/2 has hundreds of calls on a connection.
const batchTimeout = 30 * time.Second

// hurried ends calls whose client has not read the answer within timeout.
func hurried(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// It cannot fail: the connections of a server have a write deadline. The server removes the
		// deadline before the connection's next call.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
		next.ServeHTTP(w, r)
	})
}

// hideAddresses keeps the addresses of a connection out of the error of a body that failed.
func hideAddresses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, rpc.WithBody(r, rpc.QuietBody(r.Body)))
	})
}

// serveCall decides a call.
func (s *Service) serveCall(ctx context.Context, x **rawCall, of kind) error {
	if *x == nil { // connect does not read an empty message
		*x = s.rawCalls.take(of)
		(*x).unreadable = (*x).read()
	}
	return s.serve(ctx, *x)
}

// Unmarshal reads data into message.
func (c rawCodec) Unmarshal(data []byte, message any) error {
	switch call := message.(type) {
	case *checkCall:
		call.rawCall = c.pool.take(single)
		return c.read(call.rawCall, data)
	case *batchCall:
		call.rawCall = c.pool.take(batch)
		return c.read(call.rawCall, data)
	case *streamCall:
		call.rawCall = c.pool.take(streamed)
		return c.read(call.rawCall, data)
	}
	return c.Codec.Unmarshal(data, message)
}

func (c rawCodec) read(x *rawCall, data []byte) error {
	in := x.asked()
	if c.binary {
		x.message = append(x.message, data...)
		if err := x.read(); err != nil {
			return fmt.Errorf("unmarshal into %T: %w", in, err)
		}
		return nil
	}
	objects, names := checkwire.ObjectsAndNames(data)
	if x.kind != single && objects > 1+maxBatch*objectsOfOne {
		x.refused = fmt.Errorf("%w: a batch of over %d requests; send 1 to %d", charge.ErrInvalid, maxBatch, maxBatch)
		return nil
	}
	most := 1
	if x.kind != single {
		most = maxBatch
	}
	if names > most*namesOfOne {
		x.refused = fmt.Errorf("%w: more names than %d requests can have: each has at most %d attributes and costs of %d units", charge.ErrInvalid, most, maxAttributes, maxUnits)
		return nil
	}
	if err := c.Codec.Unmarshal(data, in); err != nil {
		return err
	}
	x.came = len(data)
	x.take(in)
	return nil
}

// objectsOfOne is the maximum number of objects that one request of a batch is in JSON: the
// streamed request, the request in it, its attributes and its costs.
const objectsOfOne = 4

// namesOfOne is more than the number of names of one request in JSON: those of its attributes and
// units, of its fields, and of the fields of the message around it. Without a bound two bytes of
// JSON become sixty.
const namesOfOne = maxAttributes + maxUnits + 16

// Marshal returns a message as bytes.
func (c rawCodec) Marshal(message any) ([]byte, error) {
	return c.MarshalAppend(nil, message)
}

// MarshalAppend appends a message to dst. It ends the use of a call.
func (c rawCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	var x *rawCall
	switch call := message.(type) {
	case *checkCall:
		x = call.rawCall
	case *batchCall:
		x = call.rawCall
	case *streamCall:
		x = call.rawCall
	default:
		text, err := c.Codec.Marshal(message)
		return append(dst, text...), err
	}
	defer x.done()
	if c.binary {
		return append(dst, x.reply...), nil
	}
	out := x.answered()
	if err := proto.Unmarshal(x.reply, out); err != nil {
		return nil, err
	}
	text, err := c.Codec.Marshal(out)
	return append(dst, text...), err
}

// protoCodec is connect's codec for protobuf, which connect does not export.
type protoCodec struct{}

// Name returns the codec's name in content types.
func (protoCodec) Name() string { return "proto" }

// Marshal returns a message as bytes.
func (protoCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("regional: %T is not a protobuf message", message)
	}
	return proto.Marshal(m)
}

// Unmarshal reads data into message.
func (protoCodec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("regional: %T is not a protobuf message", message)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("unmarshal into %T: %w", message, err)
	}
	return nil
}

// named is a codec under another name.
type named struct {
	connect.Codec
	name string
}

// Name returns that name.
func (n named) Name() string { return n.name }
