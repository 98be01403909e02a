package regional

import (
	"testing"
	"time"
)

// TestStoreClockSetForward: decisions carry a deadline in the store's clock. When
// that clock is set forward they seem late, and the daemon learns the clock anew
// instead of calling the store unwell.
func TestStoreClockSetForward(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, oneRule).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	if a := check(t, d, "k"); !a.Allowed || a.Mode != modeStore {
		t.Fatalf("before: %+v", a)
	}
	for range 3 {
		auth := d.limiter.auth
		now := auth.now()
		hourAgo := time.Now().Add(-time.Hour).UnixMicro() // what the store's clock showed before it was set
		auth.clockWasSet(auth.currentEpoch(), sample{store: hourAgo, sent: now, received: now})
		if until := auth.clock.Until(now.Add(takeAtMost)); until > time.Now().UnixMicro() {
			t.Fatalf("the deadline is %d, which is not in the store's past", until)
		}
		if a := check(t, d, "k"); !a.Allowed || a.Mode != modeStore {
			t.Fatalf("after the store's clock was set forward: %+v", a)
		}
	}
	now := d.limiter.auth.now()
	if until := d.limiter.auth.clock.Until(now); time.Since(time.UnixMicro(until)) > time.Minute {
		t.Errorf("the clock was not learnt anew: now is %v", time.UnixMicro(until))
	}
}
