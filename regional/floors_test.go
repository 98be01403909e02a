package regional

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// floorOnDisk is the region's floor as the state file knows it.
func floorOnDisk(t *testing.T, c *Config) policy.Region {
	t.Helper()
	s, err := readState(c.StateFile, c.Region, c.Logger)
	if err != nil || s == nil {
		t.Errorf("no state: %v", err)
		return policy.Region{}
	}
	return s.Cluster.Regions[s.Cluster.Index(c.Region)]
}

// TestFloorShrinks: before the region acknowledges a smaller floor, it is on disk,
// and every decision is made by it.
func TestFloorShrinks(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Strict))
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state")
		d, _ := startLive(t, c)
		exactly(t, "half of 400", burst(t, d, "before"), 200, d)
		exactly(t, "left of half of 400", int(check(t, d, "used once").Remaining), 199, d)
		var acknowledged atomic.Bool
		l.set(func() {
			l.onReport = func(r *aliquotv1.ReportRequest) {
				if r.GetEpoch() != 2 || acknowledged.Load() {
					return
				}
				defer acknowledged.Store(true)
				quarter := budget.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 4}
				if got := floorOnDisk(t, &c); got != (policy.Region{Name: "us", Floor: quarter, Low: quarter, FloorVersion: 2}) {
					t.Errorf("acknowledged before it was on disk: %+v", got)
				}
			}
		})
		l.setFloor(oneOf(4), oneOf(4), 2)
		eventually(t, "the floor is acknowledged", acknowledged.Load)
		exactly(t, "of a fresh bucket, a quarter of 400 is 100", burst(t, d, "after"), 100, d)
		exactly(t, "of a bucket that held 199, a quarter of 400 is 100", burst(t, d, "used once"), 100, d)
	})
}

// TestFloorGrows: what was not earned at the larger floor is not there.
func TestFloorGrows(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Strict))
		d, _ := startLive(t, testConfig(l.address()))
		l.setFloor(oneOf(2), oneOf(4), 2)
		eventually(t, "the machine knows", func() bool { return rightOf(d, keyOf(d, "k")).FloorSince != 0 })
		exactly(t, "of a bucket that may have been spent from at a floor of 100", burst(t, d, "k"), 100, d)
		l.setFloor(oneOf(2), oneOf(2), 0)
		eventually(t, "no change matters", func() bool { return rightOf(d, keyOf(d, "k")).FloorSince == 0 })
		exactly(t, "of a fresh bucket, half of 400 is 200", burst(t, d, "k2"), 200, d)
	})
}

// TestFloorNotKept: without a disk a floor is not acknowledged; the region goes on
// with the old one, which is still its own.
func TestFloorNotKept(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Strict))
		c := testConfig(l.address())
		dir := filepath.Join(t.TempDir(), "var")
		c.StateFile = filepath.Join(dir, "state")
		d, _ := startLive(t, c)
		eventually(t, "a state file", func() bool { _, err := os.Stat(c.StateFile); return err == nil })
		eventually(t, "the first floor is kept", func() bool { return floorOnDisk(t, &c).Floor.Burst == budget.Unit/2 })
		if err := os.Rename(dir, dir+".gone"); err != nil {
			t.Fatal(err)
		}
		l.setFloor(oneOf(4), oneOf(4), 2)
		var session uint64
		l.set(func() { session = l.session })
		eventually(t, "a few Hellos", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.session > session+2
		})
		l.set(func() {
			if last := l.reports[len(l.reports)-1]; last.GetSession() >= session {
				t.Errorf("session %d was opened with a floor that is on no disk", last.GetSession())
			}
		})
		exactly(t, "the floor that was not given up holds 200", burst(t, d, "k"), 200, d)
		if err := os.Rename(dir+".gone", dir); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the smaller floor is kept and in force", func() bool {
			return floorOnDisk(t, &c).Floor.Burst == budget.Unit/4 && d.auth.Info().SessionOpen
		})
		exactly(t, "a quarter of 400 is 100", burst(t, d, "k2"), 100, d)
	})
}

// TestFloorsOutOfDateAreNotBelieved: neither with a session nor with "busy", and not
// by a daemon that was started again either.
func TestFloorsOutOfDateAreNotBelieved(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"ok", "busy"} {
		l := newLeader(t, ruled(rules.Strict))
		c := withRedis(t, l)
		d, stop := startKept(t, c)
		l.setFloor(oneOf(4), oneOf(4), 2)
		eventually(t, "the floor is acknowledged", func() bool { return d.auth.Info().SessionOpen && d.auth.Info().Epoch == 2 })
		stop()
		l.set(func() {
			l.us, l.version, l.exclusive = &aliquotv1.DeclaredRegion{Name: "us", Floor: oneOf(2)}, 1, result == "busy"
			l.holder, l.heard = 1, time.Now().Add(time.Hour)
		})
		d, _ = start(t, c)
		l.set(func() { l.knows = append(l.knows, uint64(d.others.Self())) }) // by whom has the session
		eventually(t, "a few answers", func() bool { return answers(t, d, result) > 2 })
		exactly(t, "the floor that was acknowledged, a quarter of 400", burst(t, d, "k"), 100, d)
		if got := floorOnDisk(t, &c).Floor.Burst; got != budget.Unit/4 {
			t.Errorf("on disk: %d of %d", got, budget.Unit)
		}
	}
}

// TestFloorWaitsForDecisions: a decision under way under the old floor is made before
// the new one is acknowledged.
func TestFloorWaitsForDecisions(t *testing.T) {
	l := newLeader(t, ruled(rules.Strict))
	d, _ := startLive(t, testConfig(l.address()))
	d.auth.HoldFloor() // as such a decision does
	l.setFloor(oneOf(4), oneOf(4), 2)
	var session uint64
	eventually(t, "the Hello is answered", func() bool {
		defer l.mu.Unlock()
		l.mu.Lock()
		session = l.session
		return l.hellos[len(l.hellos)-1] != l.hellos[0]
	})
	opened := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.reports[len(l.reports)-1].GetSession() >= session
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		<-tick.C
		if opened() {
			t.Fatal("acknowledged while a decision under the old floor was under way")
		}
	}
	d.auth.ReleaseFloor()
	eventually(t, "the floor is acknowledged", opened)
}

// TestStateFileFromBeforeFloorsChanged still loads.
func TestStateFileFromBeforeFloorsChanged(t *testing.T) {
	const old = `{"format":1,"region":"us","cluster":{"cluster_id":"c1","lease_ns":10000000000,"rho_ppm":20000,
		"regions":[{"name":"us","floor":{"Rate":524288,"Burst":524288}}],"hash_secret":"MDEy"}}`
	c := testConfig("127.0.0.1:1")
	c.StateFile = filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(c.StateFile, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	got := floorOnDisk(t, &c)
	if half := (budget.Share{Rate: 524288, Burst: 524288}); got != (policy.Region{Name: "us", Floor: half, Low: half}) {
		t.Errorf("%+v", got)
	}
}

// TestFloorsOutOfRangeAreRefused: a floor that no leader tells opens no session.
func TestFloorsOutOfRangeAreRefused(t *testing.T) {
	good := policy.Cluster{ClusterID: "c", Secret: []byte("s"), Lease: time.Second}
	for name, r := range map[string]policy.Region{
		"above all":        {Name: "us", Floor: budget.Share{Rate: budget.Unit + 1}},
		"negative":         {Name: "us", Floor: budget.Share{Burst: -1}, Low: budget.Share{Burst: -1}},
		"low above floor":  {Name: "us", Floor: budget.Share{Rate: 5, Burst: 5}, Low: budget.Share{Rate: 5, Burst: 6}, FloorVersion: 1},
		"low out of range": {Name: "us", Low: budget.Share{Rate: -1}, FloorVersion: 1},
	} {
		c := good
		c.Regions = []policy.Region{r}
		if c.Check("us") == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good.Regions = []policy.Region{{Name: "us", Floor: budget.Share{Rate: 5, Burst: 5}, FloorVersion: 1}}
	if err := good.Check("us"); err != nil {
		t.Errorf("a region that joined with nothing: %v", err)
	}
}
