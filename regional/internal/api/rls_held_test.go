package api

import (
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
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
	data, err := proto.Marshal(descriptorsOf("bench", strings.Split("abcdefghij"[:descriptors], "")...))
	if err != nil {
		t.Fatal(err)
	}
	message, buffer := mem.BufferSlice{mem.SliceBuffer(data)}, make([]byte, 0, 4<<10)
	return func() bool {
		c := service.call()
		defer c.done()
		if c.DecodeFrom(message, nil) != nil || service.decide(t.Context(), c) != nil {
			return false
		}
		buffer = c.out.Append(buffer[:0])
		return !c.out.Over() && len(c.out.Statuses) == descriptors
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
