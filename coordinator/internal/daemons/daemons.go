// Package daemons remembers what the regional daemons tell a coordinator of themselves. No budget depends on it: it is
// for those who look at a region.
package daemons

import (
	"slices"
	"sync"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Seen remembers the daemon of each region that last opened a session, whether its store answers, when a daemon of the
// region said Hello last, and which contents of a store it named. The zero value knows of none. It is safe for
// concurrent use.
type Seen struct {
	mu       sync.Mutex
	byRegion map[string]daemon
}

// daemon is what the daemons of a region have told.
type daemon struct {
	address, opsAddress, version, contents string
	heardAt, reportedAt                    time.Time // of the last Hello, and of the last report
	storeless                              bool
}

// Hello records a Hello that came at a time. The address counts only with a session.
func (s *Seen) Hello(hello *aliquotv1.HelloRequest, session bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byRegion[hello.GetRegion()]
	d.contents, d.heardAt = hello.GetRedisEpoch(), at
	if session {
		d.address, d.opsAddress, d.version = hello.GetAddress(), hello.GetOpsAddress(), hello.GetDaemonVersion()
		d.storeless = hello.GetStoreless()
	}
	s.put(hello.GetRegion(), d)
}

// Report records a report that came at a time: whether the store of the region's session answers.
func (s *Seen) Report(report *aliquotv1.ReportRequest, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byRegion[report.GetRegion()]
	d.storeless, d.reportedAt = report.GetStoreless(), at
	s.put(report.GetRegion(), d)
}

// put remembers d. The caller holds mu.
func (s *Seen) put(region string, d daemon) {
	if s.byRegion == nil {
		s.byRegion = map[string]daemon{}
	}
	s.byRegion[region] = d
}

// Describe adds what is remembered to a region. What a session told of the store is known while the
// region is live.
func (s *Seen) Describe(r *aliquotv1.Region, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byRegion[r.GetName()]
	r.Address, r.OpsAddress, r.DaemonVersion = d.address, d.opsAddress, d.version
	r.Storeless = live && d.storeless
}

// Heard reports whether a daemon of the region said Hello in the time before now.
func (s *Seen) Heard(region string, now time.Time, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.byRegion[region].heardAt
	return !at.IsZero() && now.Sub(at) < within
}

// SharedWith returns the first other region of those that take part that named the same contents as region; empty if
// none did, or if region takes no part. No region shares contents that are not known. Nor does one whose daemons were
// not heard in the time before now: it may have got another name, and its store with it.
func (s *Seen) SharedWith(region string, takePart []string, now time.Time, within time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := func(name string) string {
		d := s.byRegion[name]
		if now.Sub(d.heardAt) >= within && now.Sub(d.reportedAt) >= within {
			return ""
		}
		return d.contents
	}
	contents := known(region)
	if contents == "" || !slices.Contains(takePart, region) {
		return ""
	}
	for _, other := range takePart {
		if other != region && known(other) == contents {
			return other
		}
	}
	return ""
}
