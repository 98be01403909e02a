package service

import (
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// One Redis for all regions is an easy mistake. The regions take from the same records then, and admit a fraction of
// each limit.
func TestRegionsThatShareAStoreAreTold(t *testing.T) {
	t.Parallel()
	var d daemons
	for i, c := range []struct{ region, contents, want string }{
		{"us", "n:r:1", ""},
		{"us", "n:r:1", ""}, // its second daemon
		{"eu", "n:r:1", "us"},
		{"us", "n:r:1", "eu"},
		{"ap", "n:r:1", "eu"},
		{"ap", "n:r:2", ""}, // it has a store of its own now
		{"eu", "", ""},      // its store has not answered yet
		{"us", "n:r:1", ""},
		{"eu", "", ""},
	} {
		if got := d.record(&aliquotv1.HelloRequest{Region: c.region, RedisEpoch: c.contents}, true, time.Now()); got != c.want {
			t.Errorf("Hello %d, of %s with contents %q: shared with %q, want %q", i, c.region, c.contents, got, c.want)
		}
	}
}

// A region is shown with the daemon that has its session, and not with the one that waits for it.
func TestARegionIsShownWithItsDaemon(t *testing.T) {
	t.Parallel()
	var d daemons
	d.record(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "a:7500", OpsAddress: "a:7503", DaemonVersion: "0.1.0"}, true, time.Now())
	d.record(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "b:7500"}, false, time.Now())
	d.record(&aliquotv1.HelloRequest{Region: "eu", RedisEpoch: "n:r:1"}, true, time.Now())
	r := &aliquotv1.Region{Name: "us"}
	d.describe(r)
	if r.Address != "a:7500" || r.OpsAddress != "a:7503" || r.DaemonVersion != "0.1.0" || r.StoreSharedWith != "eu" {
		t.Errorf("shown: %v", r)
	}
}

// A region whose store does not answer says Hello again and again, and gets no session: it is not silent.
func TestARegionThatIsHeardIsNotSilent(t *testing.T) {
	t.Parallel()
	var d daemons
	now := time.Unix(1_000_000, 0)
	d.record(&aliquotv1.HelloRequest{Region: "us"}, false, now)
	for _, c := range []struct {
		name   string
		region *aliquotv1.Region
		known  budget.RegionStatus
		after  time.Duration
		want   string
	}{
		{"never heard", &aliquotv1.Region{Name: "eu"}, budget.RegionStatus{}, 0, StateSilent},
		{"heard", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{LeaseRemaining: time.Second}, 9 * time.Second, stateNoSession},
		{"heard a lease ago", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{}, 10 * time.Second, StateSilent},
		{"a session that is being opened", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7}, time.Minute, stateNoSession},
		{"cut off, a moment before its lease ends", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7, LeaseRemaining: time.Millisecond}, time.Minute, StateSilent},
		{"live", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7, Live: true}, time.Minute, StateLive},
		{"fenced a moment ago", &aliquotv1.Region{Name: "us", Status: statusFenced}, budget.RegionStatus{}, time.Second, StateSilent},
	} {
		describe(c.region, c.known, d.heard(c.region.Name, now.Add(c.after), 10*time.Second))
		if c.region.State != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.region.State, c.want)
		}
	}
}
