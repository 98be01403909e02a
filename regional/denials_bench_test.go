package regional

import (
	"testing"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// BenchmarkDenial is what remembering a denial costs it.
func BenchmarkDenial(b *testing.B) {
	var s denials
	r := charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "sk_live_0123456789", "endpoint": "/v1/orders", "method": "POST"}), Cost: limit.Token}
	p := &policy.Policy{Set: &rules.Set{}}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		s.add(n, explained{policy: p, request: r})
	}
}
