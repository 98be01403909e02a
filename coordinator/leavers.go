package coordinator

import (
	"context"
	"math"
	"sync"

	"aliquot/budget"
)

// leavers remembers which sessions are of daemons that have stopped, so that the next daemon
// of a region need not wait until the machine takes their silence for that. A session ends
// only when somebody wants its place: a region whose one daemon restarts is not taken for
// silent meanwhile, which would cost the others a floor. The zero value has none; safe for
// concurrent use.
type stoppedDaemons struct {
	mu       sync.Mutex
	byRegion map[string]sessionID // by region, the latest
}

// hear takes a daemon's word that it is the end of a session.
func (l *stoppedDaemons) add(region string, of sessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRegion == nil {
		l.byRegion = map[string]sessionID{}
	}
	l.byRegion[region] = of
}

// makeWay ends the session of a daemon that has left a region, and reports whether there may
// have been one. What the machine hears next finds it ended.
func (l *stoppedDaemons) endStoppedSession(loop *leaderLoop, region string, index int) bool {
	l.mu.Lock()
	of, left := l.byRegion[region]
	delete(l.byRegion, region)
	l.mu.Unlock()
	return left && loop.endSession(index, of) == nil
}

// daemonLeft tells the machine that a daemon of a region has stopped.
func (l *leaderLoop) daemonLeft(region int, id budget.DaemonID) error {
	return l.post(func(loopCtx context.Context) { l.step(loopCtx, budget.DaemonLeft{Region: region, Daemon: id}) })
}

// endSession ends a session, if it is open, as a gap in its reports does.
func (l *leaderLoop) endSession(region int, of sessionID) error {
	gap := budget.Report{Shard: l.ledger.Shard, Region: region, Epoch: of.epoch, Session: of.session, Seq: math.MaxUint64}
	return l.post(func(loopCtx context.Context) { l.step(loopCtx, budget.ReportReceived{Report: gap}) })
}
