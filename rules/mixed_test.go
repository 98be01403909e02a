package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/rules/document"
)

// mixedRules is a file of MaxRules rules of the kinds that people write: by tenant, by
// tier and endpoint, by lists of values, by regular expression, for everyone, with
// overrides, replacing each other, with lists of ten thousand keys.
func mixedRules() string {
	var b strings.Builder
	b.WriteString("defaults: {params: {capacity: 10, refill_rate: 1}}\nrules:\n")
	for i := range document.MaxRules {
		switch {
		case i%2000 == 0:
			fmt.Fprintf(&b, "  - {id: r%d, override: {\"sk_t1*\": {capacity: 20, until: \"2030-01-01T00:00:00Z\"}, \"sk_t42\": {capacity: 30}}}\n", i)
		case i%100 == 1:
			fmt.Fprintf(&b, "  - {id: r%d, match: {attributes: {method: [GET, POST], org: [org%d, {regex: \"^o%d-[a-z]+$\"}]}}}\n", i, i, i)
		case i%100 == 2:
			fmt.Fprintf(&b, "  - {id: r%d, tier: pro, match: {attributes: {org: \"org%d*\"}}, replaces: [r0]}\n", i, i)
		case i%2 == 0:
			fmt.Fprintf(&b, "  - {id: r%d, match: {api_key_pattern: \"sk_t%d_*\"}}\n", i, i)
		default:
			fmt.Fprintf(&b, "  - {id: r%d, tier: pro, match: {endpoint_regex: \"^/v1/s%d/[a-z]+$\"}}\n", i, i)
		}
	}
	b.WriteString("blacklist:\n")
	for i := range document.MaxRules {
		fmt.Fprintf(&b, "  - {pattern: \"bad%d*\", until: \"2030-01-01T00:00:00Z\"}\n", i)
	}
	return b.String()
}

// mixedRequests meet the rules of mixedRules in every way.
func mixedRequests() []Attributes {
	var out []Attributes
	for i := range 512 {
		n := i * 37 % document.MaxRules
		out = append(out, AttributesOf(map[string]string{
			"api_key": fmt.Sprintf("sk_t%d_x", n), "endpoint": fmt.Sprintf("/v1/s%d/orders?page=%d", n+1, i), "tier": []string{"pro", "free"}[i%2],
			"method": "GET", "org": fmt.Sprintf("org%d", n+1), "user": fmt.Sprint("u", i), "ip": "192.0.2.1",
		}))
	}
	return out
}

// The index of ten thousand mixed rules finds what trying each of them finds.
func TestMixedRules(t *testing.T) {
	s := MustParse(t, mixedRules())
	most := 0
	for i, attrs := range mixedRequests() {
		if i%8 > 0 {
			continue // trying them all takes its time
		}
		_, matched := s.Match(attrs, 0, nil)
		most = max(most, len(matched))
		var want []string
		for _, trace := range s.Explain(attrs, 0).Rules {
			if trace.Matched {
				want = append(want, trace.Rule.ID)
			}
		}
		if got := ids(matched); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", attrs, got, want)
		}
	}
	if most < 7 {
		t.Errorf("no request met more than %d rules: the file and the requests do not fit each other", most)
	}
}

// BenchmarkMatchP99 prints the time of a match that 99 of a hundred stay below.
func BenchmarkMatchP99(b *testing.B) {
	s := MustParse(b, mixedRules())
	requests := mixedRequests()
	buf := make([]Matched, 0, 64)
	took := make([]time.Duration, 0, 1<<20)
	found := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		_, buf = s.Match(requests[i%len(requests)], 0, buf)
		if d := time.Since(began); len(took) < cap(took) {
			took = append(took, d)
		}
		found += len(buf)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(found)/float64(b.N), "rules/op")
}
