package api

import (
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"aliquot/internal/envoyrls"
)

const heldRules = `
rules:
  - {id: r0, match: {attributes: {domain: bench}}, key: [tenant], params: {capacity: 1000000000, refill_rate: 1000000000}}
`

// heldCall is a call of Envoy's protocol from bytes to bytes, without gRPC, of descriptors
// whose tokens the daemon holds. It tells whether it was answered with all of them OK.
func heldCall(t testing.TB, descriptors int) func() bool {
	t.Helper()
	service := serviceOf(t, heldRules).envoy
	message := &ratelimitv3.RateLimitRequest{Domain: "bench"}
	for i := range descriptors {
		message.Descriptors = append(message.Descriptors, &descriptorv3.RateLimitDescriptor{
			Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: string(rune('a' + i))}},
		})
	}
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	in, out, buffer := &envoyrls.Request{}, &envoyrls.Response{}, make([]byte, 0, 4<<10)
	return func() bool {
		out.Reset()
		in.Decode(data)
		if service.ShouldRateLimit(t.Context(), in, out) != nil {
			return false
		}
		buffer = out.Append(buffer[:0])
		return !out.Over() && len(out.Statuses) == descriptors
	}
}

// TestEnvoysHeldChecksAllocateNothing, one descriptor or several.
func TestEnvoysHeldChecksAllocateNothing(t *testing.T) {
	for _, descriptors := range []int{1, 10} {
		call := heldCall(t, descriptors)
		eventually(t, "no allocations", func() bool { // but for what goes on beside
			answered := true
			allocated := testing.AllocsPerRun(3, func() { answered = call() && answered })
			return answered && allocated == 0
		})
	}
}

func BenchmarkEnvoyHeld(b *testing.B) {
	call := heldCall(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if !call() {
			b.Fatal("not answered")
		}
	}
}
