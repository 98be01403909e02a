package coordinator

import (
	"sync"

	"aliquot/coordinator/internal/leader"
)

// stoppedDaemons remembers the sessions of daemons that have stopped. The next daemon of the region
// then need not wait until the state machine counts the session as silent. A session ends only when
// another daemon wants its place. A region whose only daemon restarts is not silent meanwhile: that
// would cost the others a floor. The zero value has none. It is safe for concurrent use.
type stoppedDaemons struct {
	mu       sync.Mutex
	byRegion map[string]leader.SessionID // by region: the latest
}

// add notes that a daemon has ended its session.
func (l *stoppedDaemons) add(region string, of leader.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRegion == nil {
		l.byRegion = map[string]leader.SessionID{}
	}
	l.byRegion[region] = of
}

// endStoppedSession ends the session of a stopped daemon of the region. It reports whether there may
// have been one. The state machine finds it ended before the next event.
func (l *stoppedDaemons) endStoppedSession(loop *leader.Loop, region string, index int) bool {
	l.mu.Lock()
	of, left := l.byRegion[region]
	delete(l.byRegion, region)
	l.mu.Unlock()
	return left && loop.EndSession(index, of) == nil
}
