package explain

import (
	"strings"
	"testing"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// TestDenialsAreBounded in number, bytes and versions of the rules.
func TestDenialsAreBounded(t *testing.T) {
	var s denials
	one := &policy.Policy{Set: &rules.Set{}}
	add := func(n uint64, p *policy.Policy, value string) {
		s.add(n, explained{policy: p, request: charge.Request{Attributes: rules.AttributesOf(map[string]string{"a": value}), Cost: limit.Token}})
	}
	has := func(n uint64) bool { _, ok := s.find(n); return ok }
	for n := uint64(1); n <= 2*maxDenials; n++ {
		add(n, one, "x")
	}
	if has(maxDenials) || !has(maxDenials+1) || !has(2*maxDenials) || has(2*maxDenials+1) || has(0) {
		t.Error("the latest 4,096 are kept")
	}
	if e, _ := s.find(2 * maxDenials); e.request.Attributes.Get("a") != "x" || e.request.Cost != limit.Token {
		t.Errorf("%+v", e.request)
	}
	add(3, one, "late") // overtaken by others
	if has(3) {
		t.Error("an old one came back")
	}
	next := uint64(2*maxDenials + 1)
	for range 200 {
		add(next, one, strings.Repeat("y", 200<<10))
		next++
	}
	if s.bytes > maxDenialBytes || !has(next-1) || has(next-150) {
		t.Errorf("%d bytes", s.bytes)
	}
	add(next, one, strings.Repeat("y", maxDenialBytes))
	if has(next) {
		t.Error("one that is too large is not kept")
	}
	last := next - 1
	for i := range maxDenialRules {
		if !has(last) {
			t.Fatalf("gone after %d versions", i)
		}
		next++
		add(next, &policy.Policy{Set: &rules.Set{}}, "z")
	}
	if has(last) || !has(next) || len(s.rules) != maxDenialRules {
		t.Errorf("%d versions are kept", len(s.rules))
	}
}

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
