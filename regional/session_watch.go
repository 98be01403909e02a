package regional

import (
	"fmt"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/telemetry"
)

const (
	// heardLately is for how long a region counts as heard after a coordinator has answered it. It
	// is longer than the pause between two Hellos.
	heardLately = spreadMost + 5*time.Second
	// withoutAtMost is for how long a region that is heard may be without a session and still be
	// ready.
	withoutAtMost = 10 * time.Second
	// progressLogged is the interval between the log lines of one long application of shares.
	progressLogged = 5 * time.Second
)

// sessionWatch measures for how long a region has had no session although coordinators answer it.
// It also decides when to log the progress of a long application of shares. look has one caller at
// a time; the rest is safe for concurrent use.
type sessionWatch struct {
	lost   atomic.Int64 // the Instant when the session was lost; 0 while there is one
	began  budget.Instant
	logged budget.Instant
}

// look takes the present state of the state machine, and returns whether to log the application
// under way.
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

// without returns for how long the region has been heard without a session. It is 0 with a session,
// while no coordinator answers, and while another daemon of the region has the session.
func (r *reporter) without() time.Duration {
	lost := budget.Instant(r.session.lost.Load())
	if lost == 0 || r.second.Load() || !r.peers.answer(heardLately) {
		return 0
	}
	return r.auth.Now().Sub(lost)
}

// watchSession records whether there is a session, and logs the progress of a long application of
// shares.
func (r *reporter) watchSession(info budget.RegionInfo) {
	if r.session.look(info, r.auth.Now()) {
		r.log.Info("shares are being applied in the store", "applied", info.Applied, "keys", info.Applying, "session", info.SessionOpen)
	}
	r.metrics.SetDegraded(telemetry.DegradedSession, r.without() > withoutAtMost)
}

// withoutSession returns the reason why a region that is heard without a session is not ready;
// empty if it is ready.
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
