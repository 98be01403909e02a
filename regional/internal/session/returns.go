package session

import (
	"context"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Return is what the last run of a daemon left when it stopped, besides what it remembered of its store's
// records.
type Return struct {
	// Place is the number under which the coordinators were asked to keep the daemon's place.
	Place uint64
	Terms Terms
}

// place returns the number under which the last run's place was kept; 0: there is nothing to return to. Every Hello names
// it, because a Hello that does not ends the place. The caller holds helloMu.
func (s *Session) place() uint64 {
	if s.returns == nil {
		return 0
	}
	return s.returns.Place
}

// Terms identify what a daemon enforces. What it remembers of records holds only under the same terms.
type Terms struct {
	Config uint64 // the version of the configuration
	Rules  budget.RulesState
}

// Terms returns the present terms.
func (s *Session) Terms() Terms {
	p := s.policies.Load()
	return Terms{Config: p.Cluster.Version, Rules: p.State()}
}

// comeBack decides by the answer to a Hello (nil: there was none) whether what the last run remembered
// holds. It does so before the state machine gets the answer, because the shares in it are applied in the
// store by what is remembered. The caller holds helloMu.
func (s *Session) comeBack(ctx context.Context, in *aliquotv1.HelloRequest, out *aliquotv1.HelloResponse, ev budget.RegionEvent) {
	_, opens := ev.(budget.HelloAnswered)
	if s.returns == nil || !opens && (!out.GetBusy() || in.GetRedisEpoch() == "") {
		return // nothing is decided by it
	}
	switch {
	case !out.GetPlaceKept():
		s.forgo("the coordinators have not kept this daemon's place, or another daemon of the region has come since")
	case s.returns.Terms != s.Terms():
		s.forgo("the rules or the configuration have changed since")
	default:
		// Before that nothing is told to the store, because another daemon may be in the list. The shares in
		// this answer would be applied to records that start from nothing.
		s.others.awaitList(ctx)
		if keys := s.emergency.Resume(in.GetRedisEpoch()); keys > 0 {
			s.log.Info("the store has lost its contents since this daemon stopped; the daemon writes to it what it remembers", "keys", keys)
		}
	}
	s.returns = nil
}

func (s *Session) forgo(why string) {
	s.emergency.Forgo()
	s.log.Info("what this daemon remembered of its store when it stopped is not used", "reason", why)
}
