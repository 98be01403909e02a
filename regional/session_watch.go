package regional

import (
	"fmt"
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// heardLately is for how long a region that a coordinator has answered counts as heard:
	// longer than its Hellos may be apart.
	heardLately = spreadMost + 5*time.Second
	// withoutAtMost is for how long a region that is heard may be without a session before it
	// is not ready.
	withoutAtMost = 10 * time.Second
	// progressLogged spaces the log lines of one long application of shares.
	progressLogged = 5 * time.Second
)

// sessionWatch knows for how long a region has had no session although coordinators answer it,
// and tells how an application of shares gets on that takes long. One caller of look at a time;
// the rest is safe for concurrent use.
type sessionWatch struct {
	lost   atomic.Int64 // when the session was lost, an Instant; 0: there is one
	began  budget.Instant
	logged budget.Instant
}

// look takes what the machine is in at an instant, and returns whether to tell of the
// application under way.
func (w *sessionWatch) look(info budget.RegionInfo, now budget.Instant) (tell bool) {
	switch {
	case info.SessionOpen:
		w.lost.Store(0)
	case w.lost.Load() == 0:
		w.lost.Store(int64(now))
	}
	if info.Applying == 0 {
		w.began = 0
		return false
	}
	if w.began == 0 {
		w.began, w.logged = now, now
	}
	if now.Sub(w.logged) < progressLogged {
		return false
	}
	w.logged = now
	return true
}

// without is for how long the region has been heard without a session; 0 if it has one, if no
// coordinator answers, or if another daemon of the region has it.
func (r *reporter) without() time.Duration {
	lost := budget.Instant(r.session.lost.Load())
	if lost == 0 || r.second.Load() || !r.peers.answer(heardLately) {
		return 0
	}
	return r.auth.now().Sub(lost)
}

// watchSession notes whether there is a session, and tells of a long application of shares.
func (r *reporter) watchSession(info budget.RegionInfo) {
	if r.session.look(info, r.auth.now()) {
		r.log.Info("shares are being applied in the store", "applied", info.Applied, "keys", info.Applying, "session", info.SessionOpen)
	}
	r.metrics.setDegraded(degradedSession, r.without() > withoutAtMost)
}

// withoutSession is why a region is not ready that is heard without a session; empty if it is.
func (r *reporter) withoutSession(info budget.RegionInfo) string {
	long := r.without()
	switch {
	case long <= withoutAtMost:
		return ""
	case info.Applying > 0:
		return fmt.Sprintf("coordinators answer, and no session is open since %.0f s: %d of %d keys have their new shares in the store", long.Seconds(), info.Applied, info.Applying)
	default:
		return fmt.Sprintf("coordinators answer, and no session is open since %.0f s: the log tells why", long.Seconds())
	}
}
