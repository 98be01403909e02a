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
	now := time.Now()
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
		s.Hello(&aliquotv1.HelloRequest{Region: c.region, RedisEpoch: c.contents}, true, now)
		if got := s.SharedWith(c.region, []string{"ap", "eu", "us"}, now, time.Second); got != c.want {
			t.Errorf("Hello %d, of %s with contents %q: shared with %q, want %q", i, c.region, c.contents, got, c.want)
		}
	}
}

// A region that has got another name keeps its store. Under its old name it is fenced, drained, or not heard any more,
// and shares nothing.
func TestARegionUnderItsOldNameSharesNoStore(t *testing.T) {
	t.Parallel()
	var s Seen
	const within = 30 * time.Second
	start := time.Now()
	s.Hello(&aliquotv1.HelloRequest{Region: "old", RedisEpoch: "n:r:1"}, true, start)
	s.Report(&aliquotv1.ReportRequest{Region: "old"}, start.Add(within))
	now := start.Add(2*within - time.Nanosecond)
	s.Hello(&aliquotv1.HelloRequest{Region: "new", RedisEpoch: "n:r:1"}, true, now)
	for _, c := range []struct {
		name         string
		takePart     []string
		now          time.Time
		ofOld, ofNew string
	}{
		{"both take part", []string{"new", "old"}, now, "new", "old"},
		{"the old one is fenced", []string{"new"}, now, "", ""},
		{"the old one has not reported for long", []string{"new", "old"}, now.Add(time.Nanosecond), "", ""},
	} {
		ofOld, ofNew := s.SharedWith("old", c.takePart, c.now, within), s.SharedWith("new", c.takePart, c.now, within)
		if ofOld != c.ofOld || ofNew != c.ofNew {
			t.Errorf("%s: old shares with %q, new with %q; want %q and %q", c.name, ofOld, ofNew, c.ofOld, c.ofNew)
		}
	}
}

// A region is shown with the daemon that has its session, and not with the one that waits for it.
func TestARegionIsShownWithItsDaemon(t *testing.T) {
	t.Parallel()
	var s Seen
	s.Hello(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "a:7500", OpsAddress: "a:7503", DaemonVersion: "0.1.0"}, true, time.Now())
	s.Hello(&aliquotv1.HelloRequest{Region: "us", RedisEpoch: "n:r:1", Address: "b:7500", Storeless: true}, false, time.Now())
	r := &aliquotv1.Region{Name: "us"}
	s.Describe(r, true)
	if r.Address != "a:7500" || r.OpsAddress != "a:7503" || r.DaemonVersion != "0.1.0" || r.Storeless {
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
		s.Report(&aliquotv1.ReportRequest{Region: "us", Storeless: c.storeless}, time.Now())
		r := &aliquotv1.Region{Name: "us"}
		if s.Describe(r, c.live); r.Storeless != c.want || r.Address != "a:7500" {
			t.Errorf("reported storeless %v, live %v: shown %v", c.storeless, c.live, r)
		}
	}
}
