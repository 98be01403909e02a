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
type leavers struct {
	mu sync.Mutex
	of map[string]stream // by region, the latest
}

// hear takes a daemon's word that it is the end of a session.
func (l *leavers) hear(region string, of stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]stream{}
	}
	l.of[region] = of
}

// makeWay ends the session of a daemon that has left a region, and reports whether there may
// have been one. What the machine hears next finds it ended.
func (l *leavers) makeWay(r *reign, region string, index int) bool {
	l.mu.Lock()
	of, left := l.of[region]
	delete(l.of, region)
	l.mu.Unlock()
	return left && r.endSession(index, of) == nil
}

// daemonLeft tells the machine that a daemon of a region has stopped.
func (r *reign) daemonLeft(region int, id budget.DaemonID) error {
	return r.post(func(loop context.Context) { r.step(loop, budget.DaemonLeft{Region: region, Daemon: id}) })
}

// endSession ends a session, if it is open, as a gap in its reports does.
func (r *reign) endSession(region int, of stream) error {
	gap := budget.Report{Shard: r.ledger.Shard, Region: region, Epoch: of.epoch, Session: of.session, Seq: math.MaxUint64}
	return r.post(func(loop context.Context) { r.step(loop, budget.ReportReceived{Report: gap}) })
}
