package envoyrls

import (
	"context"
	"errors"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// decided answers each check as if it was of one limit.
type decided struct{ seen []string }

var errRefused = errors.New("refused")

func (d *decided) ShouldRateLimit(_ context.Context, in *Request, out *Response) error {
	checks, err := in.Checks()
	if err != nil {
		return err
	}
	for i := range checks {
		value := checks[i].Attributes.Get("tenant")
		if value == "refused" {
			return errRefused
		}
		if d.seen != nil {
			d.seen = append(d.seen, text(checks[i].Attributes))
		}
		out.Statuses = append(out.Statuses, Status{Over: value == "over", Name: "r0", Limit: 100, Window: time.Minute, Remaining: 99, Reset: time.Second})
	}
	return nil
}

// received is what gRPC hands a handler to read its message by.
func received(data []byte) func(any) error {
	return func(into any) error {
		return into.(*call).DecodeFrom(mem.BufferSlice{mem.SliceBuffer(data[:len(data)/2]), mem.SliceBuffer(data[len(data)/2:])})
	}
}

func sent(t testing.TB, reply any) *ratelimitv3.RateLimitResponse {
	t.Helper()
	data, err := reply.(*call).Encode()
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	var out ratelimitv3.RateLimitResponse
	if err := proto.Unmarshal(data.Materialize(), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCallsDoNotMix has calls of different sizes take turns in the same memory.
func TestCallsDoNotMix(t *testing.T) {
	service := &decided{seen: []string{}}
	calls := newCalls(service)
	large := request("d", 1)
	for range 2 * maxKeptChecks {
		large.Descriptors = append(large.Descriptors, of("tenant", "over", "x", "y"))
	}
	for _, c := range []struct {
		in     *ratelimitv3.RateLimitRequest
		answer []bool // over or not
		err    error
	}{
		{request("d", 1, of("tenant", "over"), of("tenant", "t1")), []bool{true, false}, nil},
		{request("e", 1, of("other", "x")), []bool{false}, nil},
		{request("", 1, of("other", "x")), nil, ErrInvalid},
		{request("d", 1, of("tenant", "refused")), nil, errRefused},
		{large, make([]bool, 2*maxKeptChecks), nil},
		{request("e", 1, of("tenant", "t2")), []bool{false}, nil},
	} {
		service.seen = service.seen[:0]
		data := marshalled(t, c.in)
		reply, err := calls.handle(nil, t.Context(), received(data), nil)
		if !errors.Is(err, c.err) || err == nil && c.err != nil {
			t.Errorf("%v: %v, want %v", c.in, err, c.err)
		}
		if err != nil {
			continue
		}
		clear(data) // gRPC's buffers are gone once they are read
		for i, d := range c.in.GetDescriptors() {
			want := "domain=" + c.in.GetDomain() + "\x00"
			for _, e := range d.GetEntries() {
				want += e.GetKey() + "=" + e.GetValue() + "\x00"
			}
			if service.seen[i] != want {
				t.Errorf("descriptor %d was read as %q, want %q", i, service.seen[i], want)
			}
		}
		out := sent(t, reply)
		if len(out.GetStatuses()) != len(c.answer) {
			t.Fatalf("%d statuses, want %d", len(out.GetStatuses()), len(c.answer))
		}
		for i, over := range c.answer {
			if c.in == large {
				over = true
			}
			if got := out.GetStatuses()[i].GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT; got != over {
				t.Errorf("status %d of %v: over %t", i, c.in, got)
			}
		}
	}
}

// TestTheInterceptorIsHeard goes around the decision as gRPC has it.
func TestTheInterceptorIsHeard(t *testing.T) {
	data := marshalled(t, request("d", 1, of("tenant", "over")))
	method := ""
	reply, err := newCalls(&decided{}).handle(nil, t.Context(), received(data),
		func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			method = info.FullMethod
			return handler(ctx, in)
		})
	if err != nil || method != ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName {
		t.Fatalf("method %q, %v", method, err)
	}
	if out := sent(t, reply); out.GetOverallCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT {
		t.Errorf("%v", out)
	}
	_, err = newCalls(&decided{}).handle(nil, t.Context(), func(any) error { return errRefused }, nil)
	if !errors.Is(err, errRefused) {
		t.Errorf("a message that does not come: %v", err)
	}
}

func TestReadingAndWritingAllocateNothing(t *testing.T) {
	data := marshalled(t, request("bench", 1, of("tenant", "t1", "path", "/v1/orders"), of("remote_address", "192.0.2.1")))
	var in Request
	var out Response
	buffer := make([]byte, 0, 1<<10)
	service := &decided{}
	if n := testing.AllocsPerRun(100, func() {
		out.Reset()
		in.Decode(data)
		if err := service.ShouldRateLimit(t.Context(), &in, &out); err != nil {
			t.Fatal(err)
		}
		buffer = out.Append(buffer[:0])
	}); n != 0 {
		t.Errorf("%v allocations to read and write", n)
	}
}

func BenchmarkCall(b *testing.B) {
	data := marshalled(b, request("bench", 1, of("tenant", "t1")))
	var in Request
	var out Response
	buffer := make([]byte, 0, 1<<10)
	service := &decided{}
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		in.Decode(data)
		if err := service.ShouldRateLimit(b.Context(), &in, &out); err != nil {
			b.Fatal(err)
		}
		buffer = out.Append(buffer[:0])
	}
}

// BenchmarkServed is the same with what goes to and from gRPC; two allocations are those
// of the buffers that come, and one is the slice that it wants around the buffer that goes.
func BenchmarkServed(b *testing.B) {
	calls, receive := newCalls(&decided{}), received(marshalled(b, request("bench", 1, of("tenant", "t1"))))
	b.ReportAllocs()
	for b.Loop() {
		reply, err := calls.handle(nil, b.Context(), receive, nil)
		if err != nil {
			b.Fatal(err)
		}
		data, err := reply.(*call).Encode()
		if err != nil {
			b.Fatal(err)
		}
		data.Free()
	}
}

// BenchmarkGenerated is what the generated code takes for the same.
func BenchmarkGenerated(b *testing.B) {
	data := marshalled(b, request("bench", 1, of("tenant", "t1")))
	r := &Response{Statuses: []Status{{Name: "r0", Limit: 100, Window: time.Minute, Remaining: 99, Reset: time.Second}}}
	b.ReportAllocs()
	for b.Loop() {
		var in ratelimitv3.RateLimitRequest
		if err := proto.Unmarshal(data, &in); err != nil {
			b.Fatal(err)
		}
		if _, err := proto.Marshal(message(r)); err != nil {
			b.Fatal(err)
		}
	}
}
