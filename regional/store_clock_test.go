package regional

import (
	"strings"
	"testing"
	"time"

	"aliquot/lua/redistest"
	"aliquot/regional/internal/modes"
)

// clockRules give the region's half of a limit: 50 tokens, and one every two seconds. The
// store decides every check.
const clockRules = `
defaults: {enforcement: strict, local_cache: false}
rules:
  - id: r0
    key: [api_key]
    params: {capacity: 100, refill_rate: 1}
`

// TestStoreClockIsSet: a store whose clock jumps decides on; a jump ahead gives no more than
// a full bucket, one back nothing at all, and neither keeps a bucket from refilling.
func TestStoreClockIsSet(t *testing.T) {
	const holds, rate = 50, 0.5 // of the bucket
	for _, jump := range []time.Duration{5 * time.Second, time.Hour, -5 * time.Second, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			clock := redistest.StartClock(t, redis.address())
			c := testConfig(newLeader(t, clockRules).address())
			c.Redis = "redis://" + clock.Addr
			d, _ := startLive(t, c)
			eventually(t, "the store decides", func() bool { return check(t, d, "other").Mode == modes.Store })
			for _, to := range []time.Duration{jump, 0} {
				emptied := time.Now()
				burst(t, d, "k")
				forward := (to == 0) == (jump < 0)
				clock.Set(to)
				n := burst(t, d, "k")
				given := time.Since(emptied).Seconds()*rate + 1
				if forward {
					given += min(holds, max(jump, -jump).Seconds()*rate)
				}
				if float64(n) > given {
					t.Errorf("the clock was set to %v: %d passed, %.1f at most are there", to, n, given)
				}
				if forward && n == 0 && !missedDeadlines(t)(d) {
					t.Errorf("the clock was set to %v: nothing passed, so nobody looked at it", to)
				}
				eventually(t, "the bucket refills", func() bool {
					a := check(t, d, "k")
					return a.Allowed && byTheLimit(a.Mode)
				})
				eventually(t, "the store decides", func() bool { return check(t, d, "other").Mode == modes.Store })
			}
			if now := scrape(t, d); !strings.Contains(now, `aliquot_store_circuit_open{shard="store"} 0`) {
				t.Error("the circuit is open")
			}
		})
	}
}
