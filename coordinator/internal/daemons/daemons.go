// Package daemons remembers what the regional daemons tell a coordinator of themselves. No budget depends on it: it is
// for those who look at a region.
package daemons

import (
	"maps"
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
	heardAt                                time.Time
	storeless                              bool
}

// Hello records a Hello that came at a time. The address counts only with a session. It returns the first other
// region, by name, that named the same contents; empty if none did. No region shares contents that are not known.
func (s *Seen) Hello(hello *aliquotv1.HelloRequest, session bool, at time.Time) (sharedWith string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byRegion[hello.GetRegion()]
	d.contents, d.heardAt = hello.GetRedisEpoch(), at
	if session {
		d.address, d.opsAddress, d.version = hello.GetAddress(), hello.GetOpsAddress(), hello.GetDaemonVersion()
		d.storeless = hello.GetStoreless()
	}
	s.put(hello.GetRegion(), d)
	return s.sharedWith(hello.GetRegion())
}

// Report records whether the store of a region's session answers.
func (s *Seen) Report(report *aliquotv1.ReportRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byRegion[report.GetRegion()]
	d.storeless = report.GetStoreless()
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
	r.StoreSharedWith = s.sharedWith(r.GetName())
}

// Heard reports whether a daemon of the region said Hello in the time before now.
func (s *Seen) Heard(region string, now time.Time, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.byRegion[region].heardAt
	return !at.IsZero() && now.Sub(at) < within
}

// sharedWith returns the first other region with the contents of region. The caller holds mu.
func (s *Seen) sharedWith(region string) string {
	contents := s.byRegion[region].contents
	if contents == "" {
		return ""
	}
	for _, other := range slices.Sorted(maps.Keys(s.byRegion)) {
		if other != region && s.byRegion[other].contents == contents {
			return other
		}
	}
	return ""
}
