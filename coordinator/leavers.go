package coordinator

import (
	"sync"

	"aliquot/coordinator/internal/leader"
)

// leavers remembers which sessions are of daemons that have stopped, so that the next daemon
// of a region need not wait until the machine takes their silence for that. A session ends
// only when somebody wants its place: a region whose one daemon restarts is not taken for
// silent meanwhile, which would cost the others a floor. The zero value has none; safe for
// concurrent use.
type stoppedDaemons struct {
	mu       sync.Mutex
	byRegion map[string]leader.SessionID // by region, the latest
}

// hear takes a daemon's word that it is the end of a session.
func (l *stoppedDaemons) add(region string, of leader.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRegion == nil {
		l.byRegion = map[string]leader.SessionID{}
	}
	l.byRegion[region] = of
}

// makeWay ends the session of a daemon that has left a region, and reports whether there may
// have been one. What the machine hears next finds it ended.
func (l *stoppedDaemons) endStoppedSession(loop *leader.Loop, region string, index int) bool {
	l.mu.Lock()
	of, left := l.byRegion[region]
	delete(l.byRegion, region)
	l.mu.Unlock()
	return left && loop.EndSession(index, of) == nil
}
