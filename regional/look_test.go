package regional

import (
	"fmt"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

const lookedAt = `
defaults: {enforcement: independent}
rules:
  - {id: r0, match: {attributes: {domain: wide}}, key: [tenant], params: {capacity: 1000000, refill_rate: 0.001}}
  - {id: r1, match: {attributes: {domain: narrow}}, key: [tenant], params: {capacity: 2, refill_rate: 0.001}}
`

// TestLooksAtWhatMemoryHolds: a look that memory can answer asks no store, charges nothing,
// and says what a check would: that one more passes, with what is left, or that none does.
func TestLooksAtWhatMemoryHolds(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, lookedAt).address()))
		lookOf := func(domain string) (near, allowed bool, remaining int64) {
			t.Helper()
			room := d.limiter.Scratches.Take()
			defer d.limiter.Scratches.Done(room)
			r := charge.Request{Cost: limit.Token, Attributes: rules.Attributes{{Name: "domain", Value: domain}, {Name: "tenant", Value: "a"}}}
			if _, err := d.limiter.DecideIn(t.Context(), nil, room); err != nil {
				t.Fatal(err)
			}
			seen, err := d.limiter.PeekBatch(t.Context(), []charge.Request{r}, room)
			if err != nil {
				t.Fatal(err)
			}
			_, headline := seen[0].Decision.Verdicts()
			return seen[0].Cached, headline.Decision.Allowed, headline.Decision.Remaining
		}
		if near, allowed, _ := lookOf("wide"); near || !allowed {
			t.Errorf("before the first check memory told: near %v, allowed %v", near, allowed)
		}
		charged := int64(0)
		eventually(t, "memory tells of tokens", func() bool {
			envoy(t, d, "wide", 1, entries("tenant", "a"))
			charged++
			near, allowed, remaining := lookOf("wide")
			if !allowed || near && remaining != 1_000_000-charged {
				t.Fatalf("near %v, allowed %v, %d left after %d", near, allowed, remaining, charged)
			}
			again, _, same := lookOf("wide")
			return near && again && same == remaining
		})
		eventually(t, "memory tells of a denial", func() bool {
			envoy(t, d, "narrow", 1, entries("tenant", "a"))
			near, allowed, _ := lookOf("narrow")
			return near && !allowed
		})
		if got := codesOf(envoy(t, d, "narrow", 1, costing(0, entries("tenant", "a")))); got != "O:O" {
			t.Error(got)
		}
	})
}

// TestLooksShareCalls of the store: a request of many of them would wait for one after the
// other.
func TestLooksShareCalls(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, lookedAt).address()))
		calls := func() (n int) {
			t.Helper()
			const of = `aliquot_store_duration_seconds_count{op="take"} `
			text := scrape(t, d)
			if at := strings.Index(text, of); at >= 0 {
				_, _ = fmt.Sscan(text[at+len(of):], &n)
			}
			return n
		}
		before := calls()
		var all []*descriptorv3.RateLimitDescriptor
		for i := range 150 {
			all = append(all, costing(0, entries("tenant", fmt.Sprint(i))))
		}
		out := envoy(t, d, "narrow", 1, all...)
		for i, s := range out.GetStatuses() {
			if s.GetLimitRemaining() != 2 || s.GetCurrentLimit().GetName() != "r1" {
				t.Errorf("descriptor %d: %v", i, s)
			}
		}
		if n := calls() - before; n < 1 || n > 3 { // of 64 each
			t.Errorf("%d calls of the store for %d looks", n, len(all))
		}
	})
}
