package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// without returns for how long the region has been heard without a session: until the latest answer of a
// coordinator, because a session that was lost when they all fell silent is no fault of this region. It is 0
// with a session, while no coordinator answers, and while another daemon of the region has the session.
func (s *Session) without() time.Duration {
	lost := budget.Instant(s.watch.lost.Load())
	ago, heard := s.peers.lastAnswer()
	if lost == 0 || s.second.Load() || !heard || ago >= heardLately {
		return 0
	}
	return max(0, s.auth.Now().Sub(lost)-ago)
}

// export exports for how long the region has been heard without a session. It also exports
// how far the application of shares in the store has come.
func (s *Session) export(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "aliquot_session_seconds_without",
		Help:        "For how long this region has had no session although coordinators answer. 0 with a session, and while none answers.",
		ConstLabels: prometheus.Labels{"region": s.metrics.Region},
	}, func() float64 { return s.without().Seconds() }))
	for state, keys := range map[string]func(budget.RegionInfo) int{
		"told":    func(i budget.RegionInfo) int { return i.Applying },
		"applied": func(i budget.RegionInfo) int { return i.Applied },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_apply_keys",
			Help:        "Keys whose shares are being applied in the store: told are all of them, applied are those that are done. 0 while there are none.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(keys(s.auth.Info())) }))
	}
}

// watchSession records whether there is a session, and logs the progress of a long application of
// shares.
func (s *Session) watchSession(info budget.RegionInfo) {
	if s.watch.look(info, s.auth.Now()) {
		s.log.Info("shares are being applied in the store", "applied", info.Applied, "keys", info.Applying, "session", info.SessionOpen)
	}
	s.metrics.SetDegraded(telemetry.DegradedSession, s.without() > withoutAtMost)
}

// WithoutSession returns the reason why a region that is heard without a session is not ready;
// empty if it is ready. info is the present state of the state machine. It is safe for concurrent use.
func (s *Session) WithoutSession(info budget.RegionInfo) string {
	long := s.without()
	switch {
	case long <= withoutAtMost:
		return ""
	case info.Applying > 0:
		return fmt.Sprintf("coordinators answer, but no session has been open for %.0f s: %d of %d keys have their new shares in the store", long.Seconds(), info.Applied, info.Applying)
	}
	if why := s.peers.refusal(); why != "" {
		return fmt.Sprintf("no session has been open for %.0f s, because the leader refuses this region: %s", long.Seconds(), why)
	}
	return fmt.Sprintf("coordinators answer, but no session has been open for %.0f s: the log says why", long.Seconds())
}

// WithoutRules returns the reason why no rules are known, and how requests are answered meanwhile. It
// is safe for concurrent use.
func (s *Session) WithoutRules() string {
	meanwhile := "every request is denied until rules are known"
	if s.policies.Load().Open {
		meanwhile = "every request passes until rules are known"
	}
	if version := s.policies.VersionSeen(); version > 0 {
		return fmt.Sprintf("no rules yet: this daemon cannot read version %d, its log says why; upgrade it, or roll the rules back; %s", version, meanwhile)
	}
	if why := s.peers.refusal(); why != "" {
		return "no rules yet: the leader refuses this region, and there is no state file with rules: " + why + "; " + meanwhile
	}
	return "no rules yet: no coordinator has given any, and there is no state file with rules; " + meanwhile
}

// Second reports whether another daemon of the region is heard, by the latest word of a coordinator.
// The floor is that daemon's then. It is safe for concurrent use.
func (s *Session) Second() bool { return s.second.Load() }

// HolderKnown reports whether a coordinator has said, since a store has not answered from the start,
// which daemon has the region's floor. It is safe for concurrent use.
func (s *Session) HolderKnown() bool { return s.holderKnown.Load() }
