package service

import (
	"testing"

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
		if got := d.record(&aliquotv1.HelloRequest{Region: c.region, RedisEpoch: c.contents}, true); got != c.want {
			t.Errorf("Hello %d, of %s with contents %q: shared with %q, want %q", i, c.region, c.contents, got, c.want)
		}
	}
}

// A region is shown with the daemon that has its session, and not with the one that waits for it.
func TestARegionIsShownWithItsDaemon(t *testing.T) {
	t.Parallel()
	var d daemons
	d.record(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "a:7500", OpsAddress: "a:7503", DaemonVersion: "0.1.0"}, true)
	d.record(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "b:7500"}, false)
	d.record(&aliquotv1.HelloRequest{Region: "eu", RedisEpoch: "n:r:1"}, true)
	r := &aliquotv1.Region{Name: "us"}
	d.describe(r)
	if r.Address != "a:7500" || r.OpsAddress != "a:7503" || r.DaemonVersion != "0.1.0" || r.StoreSharedWith != "eu" {
		t.Errorf("shown: %v", r)
	}
}
