package daemons

import (
	"sync"

	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
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

// Record records that rules (nil: none) are sent to the region. It reports whether they are new in this
// session.
func (s *SentRules) Record(region int, in leader.SessionID, rules *aliquotv1.Rules) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRegion == nil {
		s.byRegion = map[int]sentVersion{}
	}
	now := sentVersion{in, rules.GetVersion()}
	if rules == nil || s.byRegion[region] == now {
		return false
	}
	s.byRegion[region] = now
	return true
}
