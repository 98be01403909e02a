//go:build !race

package api

import (
	"fmt"
	"testing"

	"aliquot/internal/checkwire"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// The race detector makes pools forget on purpose, so these hold without it only.

// message is a call as bytes, of so many requests of as many clients.
func message(of kind, n int) (out []byte) {
	for i := range n {
		r := checkwire.Request{Cost: 1, Attributes: rules.Attributes{
			{Name: "api_key", Value: fmt.Sprint("sk_live_", i)}, {Name: "endpoint", Value: "/v1/orders"},
			{Name: "method", Value: "POST"}, {Name: "ip", Value: "192.0.2.1"},
		}}
		if of == single {
			return r.Append(nil)
		}
		out = r.AppendToBatch(out)
	}
	return out
}

// call is a call from its bytes to the bytes of its answer.
func (s *Service) call(tb testing.TB, of kind, message []byte) (local bool) {
	x := s.rawCalls.take(of)
	x.message = append(x.message, message...)
	if err := x.read(); err != nil {
		tb.Fatal(err)
	}
	if err := s.serve(tb.Context(), x); err != nil {
		tb.Fatal(err)
	}
	local = x.answer.Mode == modes.Local
	x.done()
	return local
}

// TestCallFromMemoryAllocatesNothing between its bytes and those of its answer.
func TestCallFromMemoryAllocatesNothing(t *testing.T) {
	s := serviceOf(t, vastRule)
	for name, c := range map[string]struct {
		of kind
		n  int
	}{"a check": {single, 1}, "a batch": {batch, 20}} {
		message := message(c.of, c.n)
		eventually(t, name+" from memory", func() bool { return s.call(t, c.of, message) })
		eventually(t, name+" without allocations", func() bool { // but for what goes on beside
			return testing.AllocsPerRun(1000, func() { s.call(t, c.of, message) }) == 0
		})
	}
}

// BenchmarkCall is what the daemon does of a call whose tokens are here, from bytes to
// bytes; a batch counts as one.
func BenchmarkCall(b *testing.B) {
	s := serviceOf(b, vastRule)
	for _, c := range []struct {
		of kind
		n  int
	}{{single, 1}, {batch, 256}} {
		b.Run(fmt.Sprint("requests=", c.n), func(b *testing.B) {
			message := message(c.of, c.n)
			for range 200_000 / c.n {
				s.call(b, c.of, message)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.call(b, c.of, message)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/check")
		})
	}
}
