package daemons

import (
	"sync"

	"aliquot/coordinator/internal/leader"
)

// SentRules remembers which rules each region was sent in its session. It sends them once: if the
// answer is lost the session closes, and a region that cannot use the rules must not receive megabytes
// with every report. The zero value has sent none. It is safe for concurrent use.
type SentRules struct {
	mu       sync.Mutex
	byRegion map[int]sentVersion
}

type sentVersion struct {
	session leader.SessionID
	version uint64
}

// Record records that rules of a version (0: none) are sent to the region. It reports whether they are new
// in this session.
func (s *SentRules) Record(region int, in leader.SessionID, version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRegion == nil {
		s.byRegion = map[int]sentVersion{}
	}
	now := sentVersion{in, version}
	if version == 0 || s.byRegion[region] == now {
		return false
	}
	s.byRegion[region] = now
	return true
}
