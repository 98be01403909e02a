package regional

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// TestTimingIsKept: before the region acknowledges that others may be granted longer
// leases, a restart of it would wait for them.
func TestTimingIsKept(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Strict))
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state")
		d, stop := startLive(t, c)
		var acknowledged atomic.Bool
		l.set(func() {
			l.onReport = func(r *aliquotv1.ReportRequest) {
				if r.GetEpoch() != 2 || acknowledged.Load() {
					return
				}
				defer acknowledged.Store(true)
				s, err := readState(c.StateFile, c.Region, c.Logger)
				if err != nil || s == nil || s.Cluster.LeaseWait != 30*time.Second || s.Cluster.Lease != 10*time.Second {
					t.Errorf("acknowledged before it was on disk: %+v, %v", s, err)
				}
			}
		})
		l.set(func() {
			l.wait = 30 * time.Second
			l.epoch++
			l.version++
			l.counter = 0
			l.session++
		})
		eventually(t, "the timing is acknowledged", acknowledged.Load)
		waits := func(d *Daemon) time.Duration {
			c := d.auth.Config()
			return c.FloorAfter()
		}
		if got := waits(d); got < time.Minute {
			t.Errorf("cut off, the region would be back at its floor after %v", got)
		}
		stop()
		l.set(func() { l.down = true })
		alone, _ := start(t, c)
		phase(t, alone, budget.Limbo)
		if got := waits(alone); got < time.Minute {
			t.Errorf("after a restart without coordinators, after %v", got)
		}
	})
}
