package regional

import (
	"syscall"
	"testing"

	"aliquot/regional/internal/modes"
)

// TestStoppedStoreRefusesNobodyBelowTheLimit: clients that the store has not refused go on by what it said was
// left, at once and for as long as it is stopped, under buckets and under limits that count; and what they get
// without it comes off the store's records.
func TestStoppedStoreRefusesNobodyBelowTheLimit(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"bucket":  `{id: r0, enforcement: strict, params: {capacity: 100, refill_rate: 0.01}, local_cache: false}`,
		"fixed":   `{id: r0, enforcement: strict, algorithm: fixed_window, params: {limit: 100, window: 31536000}}`,
		"counter": `{id: r0, enforcement: strict, algorithm: sliding_window_counter, params: {limit: 100, window: 31536000}}`,
		"log":     `{id: r0, enforcement: strict, algorithm: sliding_window_log, params: {limit: 100, window: 31536000}}`,
	} {
		t.Run(name, func(t *testing.T) {
			redis := startRedis(t)
			c := testConfig(newLeader(t, "rules: ["+rule+"]").address())
			c.Redis = redis.url()
			d, _ := startLive(t, c)
			passed := 0
			eventually(t, "the store admits ten", func() bool {
				a := check(t, d, "k")
				if a.Allowed {
					passed++
				}
				return passed >= 10 && a.Mode == modes.Store
			})
			redis.signal(syscall.SIGSTOP)
			for i := range 10 {
				if a := check(t, d, "k"); !a.Allowed || a.Mode != modes.Emergency {
					t.Errorf("check %d of a stopped store: %+v", i+1, a)
				} else {
					passed++
				}
			}
			redis.signal(syscall.SIGCONT)
			eventually(t, "the store decides", func() bool {
				a := check(t, d, "k")
				if a.Allowed {
					passed++
				}
				return a.Mode == modes.Store
			})
			passed += admittedUntilDenied(t, d, "k")
			// A token may have been taken twice: by a call that the store decided after its caller had gone.
			if failed := failedTakes(t, d); passed > 50 || passed < 50-3-failed {
				t.Errorf("%d passed of the region's 50, and %d calls failed", passed, failed)
			}
		})
	}
}
