package regional

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
)

// TestSettlementsGoByTheClientsLimit: a client has twenty reservations when its limit is lowered. It settles one each
// second, and takes all it can by checks in between. That is what its limit allows now, however the client came by it.
func TestSettlementsGoByTheClientsLimit(t *testing.T) {
	const large, small = "{capacity: 10000, refill_rate: 100}", "{capacity: 100, refill_rate: 1}"
	rule := func(own, override string) string {
		return fmt.Sprintf("rules:\n  - id: r0\n    enforcement: strict\n    local_cache: false\n    key: [api_key]\n    params: %s\n    override: {%s}\n", own, override)
	}
	for _, c := range []struct{ name, before, after string }{
		{"an override is added", rule(large, ""), rule(large, "k7: "+small)},
		{"one with a wildcard is added", rule(large, ""), rule(large, `"k*": `+small)},
		{"one with a wildcard ends", rule(small, `"k*": `+strings.Replace(large, "}", ", until: %q}", 1)), ""},
		{"one that names the key ends", rule(small, "k7: "+strings.Replace(large, "}", ", until: %q}", 1)), ""},
	} {
		for _, hot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hot %t", c.name, hot), func(t *testing.T) {
				inNetwork(t, func(t *testing.T) {
					ends, before := time.Now().Add(10*time.Second).UTC(), c.before
					if c.after == "" {
						before = fmt.Sprintf(before, ends.Format(time.RFC3339Nano))
					}
					l := newLeader(t, before)
					d, _ := startLive(t, testConfig(l.address()))
					if hot {
						l.lend(keyOf(d, "k7"), budget.Unit/2)
					}
					var ids []string
					for i := range 20 {
						ids = append(ids, reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: client7, Id: fmt.Sprint("call-", i), Cost: proto.Int64(1)}).GetId())
					}
					if c.after == "" {
						<-time.After(time.Until(ends) + 10*time.Millisecond)
					} else {
						takes(t, d, l, 2, c.after)
					}
					began, passed := time.Now(), burst(t, d, "k7")
					for _, id := range ids {
						<-time.After(time.Second)
						if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Cost: proto.Int64(1)}); out.GetState() != engine.StateSettled {
							t.Fatalf("%v", out)
						}
						passed += burst(t, d, "k7")
					}
					if most := 50 + int(time.Since(began).Seconds()/2) + 1; passed > most || passed < most/2 {
						t.Errorf("%d checks passed, and the limit is %d", passed, most)
					}
				})
			})
		}
	}
}

// TestSettlementsUnderOtherOverrides: what a client of no override reserved is given back, although one of another key
// came meanwhile. If one with a wildcard came, which may be its own, the estimate stands, and its slot is free.
func TestSettlementsUnderOtherOverrides(t *testing.T) {
	for pattern, back := range map[string]int64{"other": 200, "o*": 0} {
		inNetwork(t, func(t *testing.T) {
			l := newLeader(t, llm)
			d, _ := startLive(t, testConfig(l.address()))
			id := reserveFor(t, d, estimate("call-1")).GetId()
			changed := strings.Replace(llm, "capacity: 1000}", fmt.Sprintf("capacity: 1000}\n    override: {%q: {capacity: 5}}", pattern), 1)
			takes(t, d, l, 2, strings.Replace(changed, "window: 3600}", fmt.Sprintf("window: 3600}\n    override: {%q: {limit: 1}}", pattern), 1))
			out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_in": 100}})
			if out.GetLimits()[1].GetRefunded() != back || out.GetLimits()[3].GetRefunded() != 1 {
				t.Errorf("%s: %v", pattern, out)
			}
			wantLeft(t, d, pattern, map[string]int64{"r1": 700 + back, "r3": 3})
		})
	}
}
