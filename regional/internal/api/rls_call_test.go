package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"aliquot/internal/rpc"
)

const tenantsRules = "defaults: {enforcement: independent}\nrules: [{id: r0, key: [tenant], params: {capacity: 1000, refill_rate: 1000}}]\n"

// descriptorsOf returns a request of one descriptor for each tenant. That of the tenant over costs more than
// the limit holds.
func descriptorsOf(domain string, tenants ...string) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: domain}
	for _, t := range tenants {
		cost := wrapperspb.UInt64(1)
		if t == "over" {
			cost.Value = 1001
		}
		r.Descriptors = append(r.Descriptors, &descriptorv3.RateLimitDescriptor{
			Entries:    []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: t}},
			HitsAddend: cost,
		})
	}
	return r
}

// askEnvoy makes a call of Envoy's protocol from bytes to bytes, as grpc-go does: the message comes in two
// buffers, which are gone once it is read.
func askEnvoy(tb testing.TB, service *envoyService, in *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	tb.Helper()
	data, err := proto.Marshal(in)
	if err != nil {
		tb.Fatal(err)
	}
	reply, err := service.shouldRateLimit(service, tb.Context(), func(into any) error {
		half := len(data) / 2
		err := into.(*envoyCall).DecodeFrom(mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}, nil)
		clear(data)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	bytes, err := reply.(*envoyCall).Encode()
	if err != nil {
		tb.Fatal(err)
	}
	defer bytes.Free()
	out := new(ratelimitv3.RateLimitResponse)
	if err := proto.Unmarshal(bytes.Materialize(), out); err != nil {
		tb.Fatal(err)
	}
	return out, nil
}

// TestEnvoysCallsDoNotMix has calls of different sizes, some of which fail, take turns in the same memory.
func TestEnvoysCallsDoNotMix(t *testing.T) {
	service := serviceOf(t, tenantsRules).envoy
	large := strings.Split(strings.Repeat("over ", 2*maxKeptRequests-1)+"over", " ")
	for range 3 {
		for _, c := range []struct {
			in   *ratelimitv3.RateLimitRequest
			code codes.Code
		}{
			{descriptorsOf("d", "over", "t1"), codes.OK},
			{descriptorsOf("d", "t2"), codes.OK},
			{descriptorsOf("", "t1"), codes.InvalidArgument},
			{descriptorsOf("d", large...), codes.OK},
			{descriptorsOf("d", "t3", "t4", "over"), codes.OK},
		} {
			out, err := askEnvoy(t, service, c.in)
			if status.Code(err) != c.code {
				t.Fatalf("%v: %v, want %v", c.in, err, c.code)
			}
			if err != nil {
				continue
			}
			if got, want := len(out.GetStatuses()), len(c.in.GetDescriptors()); got != want {
				t.Fatalf("%d statuses, want %d", got, want)
			}
			for i, d := range c.in.GetDescriptors() {
				tenant := d.GetEntries()[0].GetValue()
				over := out.GetStatuses()[i].GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT
				if over != (tenant == "over") {
					t.Errorf("descriptor %d of %v: over %t", i, c.in, over)
				}
			}
		}
	}
}

// TestEnvoysCallsThatFail: a message that does not come, and a panic, are errors of the call.
func TestEnvoysCallsThatFail(t *testing.T) {
	service, gone := serviceOf(t, tenantsRules).envoy, errors.New("gone")
	if _, err := service.shouldRateLimit(service, t.Context(), func(any) error { return gone }, nil); !errors.Is(err, gone) {
		t.Errorf("a message that does not come: %v", err)
	}
	_, err := service.shouldRateLimit(service, context.Background(), func(any) error { panic("a bug") }, nil)
	if status.Code(err) != codes.Internal {
		t.Errorf("a panic: %v", err)
	}
}

// TestEnvoysMessagesAreWeighed: while the message of one call takes up all the memory for messages over gRPC, another
// one is refused. When the first call is answered, there is room again.
func TestEnvoysMessagesAreWeighed(t *testing.T) {
	service := serviceOf(t, tenantsRules).envoy
	data, err := proto.Marshal(descriptorsOf("d", strings.Repeat("t", rpc.MaxUnweighed)))
	if err != nil {
		t.Fatal(err)
	}
	codec := envelopeCodec{encoding.GetCodecV2("proto"), rpc.NewGate(int64(len(data))*memoryOf, 0, 0)}
	call := func(meanwhile func()) error {
		_, err := service.shouldRateLimit(nil, t.Context(), func(into any) error {
			err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into)
			meanwhile()
			return err
		}, nil)
		return err
	}
	for range 2 {
		var beside error
		if err := call(func() { beside = call(func() {}) }); err != nil || status.Code(beside) != codes.ResourceExhausted {
			t.Errorf("%v; the call beside: %v", err, beside)
		}
	}
	if used, _ := codec.weights.Used(); used != 0 {
		t.Errorf("%d bytes are taken by no call", used)
	}
}

// BenchmarkEnvoyServed is a call from bytes to bytes, with what its client does.
func BenchmarkEnvoyServed(b *testing.B) {
	service, in := serviceOf(b, heldRules).envoy, descriptorsOf("bench", "a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := askEnvoy(b, service, in); err != nil {
			b.Fatal(err)
		}
	}
}
