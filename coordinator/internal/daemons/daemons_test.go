package daemons

import (
	"testing"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// One Redis for all regions is an easy mistake. The regions take from the same records then, and admit a fraction of
// each limit.
func TestRegionsThatShareAStoreAreTold(t *testing.T) {
	t.Parallel()
	var s Seen
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
		if got := s.Hello(&aliquotv1.HelloRequest{Region: c.region, RedisEpoch: c.contents}, true, time.Now()); got != c.want {
			t.Errorf("Hello %d, of %s with contents %q: shared with %q, want %q", i, c.region, c.contents, got, c.want)
		}
	}
}

// A region is shown with the daemon that has its session, and not with the one that waits for it.
func TestARegionIsShownWithItsDaemon(t *testing.T) {
	t.Parallel()
	var s Seen
	s.Hello(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "a:7500", OpsAddress: "a:7503", DaemonVersion: "0.1.0"}, true, time.Now())
	s.Hello(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "b:7500", Storeless: true}, false, time.Now())
	s.Hello(&aliquotv1.HelloRequest{Region: "eu", RedisEpoch: "n:r:1"}, true, time.Now())
	r := &aliquotv1.Region{Name: "us"}
	s.Describe(r, true)
	if r.Address != "a:7500" || r.OpsAddress != "a:7503" || r.DaemonVersion != "0.1.0" || r.StoreSharedWith != "eu" || r.Storeless {
		t.Errorf("shown: %v", r)
	}
}

// A daemon that loses its store says so in its next report, and again when the store is back. Of a region that is not
// live nobody knows it.
func TestARegionIsShownWithoutItsStore(t *testing.T) {
	t.Parallel()
	var s Seen
	s.Hello(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "a:7500"}, true, time.Now())
	for _, c := range []struct{ storeless, live, want bool }{
		{false, true, false}, {true, true, true}, {true, false, false}, {true, true, true}, {false, true, false},
	} {
		s.Report(&aliquotv1.ReportRequest{Region: "us", Storeless: c.storeless})
		r := &aliquotv1.Region{Name: "us"}
		if s.Describe(r, c.live); r.Storeless != c.want || r.Address != "a:7500" {
			t.Errorf("reported storeless %v, live %v: shown %v", c.storeless, c.live, r)
		}
	}
}
