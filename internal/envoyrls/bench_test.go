package envoyrls

import (
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// answer answers each check as if it was of one limit.
func answer(t testing.TB, in *Request, out *Response) {
	checks, err := in.Checks()
	if err != nil {
		t.Fatal(err)
	}
	for i := range checks {
		over := checks[i].Attributes.Get("tenant") == "over"
		out.Statuses = append(out.Statuses, Status{Over: over, Name: "r0", Limit: 100, Window: time.Minute, Remaining: 99, Reset: time.Second})
	}
}

func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadingAndWritingAllocateNothing(t *testing.T) {
	data := marshalled(t, request("bench", 1, of("tenant", "t1", "path", "/v1/orders"), of("remote_address", "192.0.2.1")))
	var in Request
	var out Response
	buffer := make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() {
		out.Reset()
		in.Decode(data)
		answer(t, &in, &out)
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
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		in.Decode(data)
		answer(b, &in, &out)
		buffer = out.Append(buffer[:0])
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
