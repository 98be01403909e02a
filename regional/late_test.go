package regional

import (
	"fmt"
	"testing"
	"time"

	"aliquot/internal/storeclock"
	"aliquot/regional/internal/modes"
)

// TestStoreClockSetForward: decisions carry a deadline in the store's clock. When
// that clock is set forward they seem late, and the daemon learns the clock again
// instead of calling the store unwell.
func TestStoreClockSetForward(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, oneRule).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	eventually(t, "the store decides", func() bool {
		a := check(t, d, "before")
		return a.Allowed && a.Mode == modes.Store
	})
	tries, done := 0, 0
	eventually(t, "three checks are decided by the store with deadlines in its past", func() bool {
		tries++
		auth := d.auth
		now := auth.Now()
		hourAgo := time.Now().Add(-time.Hour).UnixMicro() // what the store's clock showed before it was set
		auth.ClockWasSet(auth.CurrentEpoch(), storeclock.Sample{Store: hourAgo, Sent: now, Received: now})
		// The daemon may look at the store's clock at any time, and a busy store miss a deadline.
		past := auth.Clock.Until(now.Add(storeclock.MaxFlight)) <= time.Now().UnixMicro()
		a := check(t, d, fmt.Sprint("k", tries))
		if past && a.Allowed && a.Mode == modes.Store {
			done++
		}
		return done == 3
	})
	now := d.auth.Now()
	if until := d.auth.Clock.Until(now); time.Since(time.UnixMicro(until)) > time.Minute {
		t.Errorf("the clock was not learnt again: now is %v", time.UnixMicro(until))
	}
}
