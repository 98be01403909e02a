package coordinator

import (
	"context"
	"time"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Limits of a stage.
const (
	minPromoteAfter = 10 * time.Second
	maxPromoteAfter = 24 * time.Hour
	// defaultHaltAbove is far above the random variation of 1,000 requests.
	defaultHaltAbove = 0.05
)

// stageOf returns the stage in a message.
func stageOf(m *aliquotv1.Stage) (cluster.Stage, error) {
	s := cluster.Stage{Regions: m.GetRegions()}
	if len(s.Regions) == 0 || len(s.Regions) > clusterstate.MaxRegions {
		return s, invalid("stage.regions has %d regions; name at least one, and not all there are", len(s.Regions))
	}
	if m.GetPromoteAfter() != nil {
		s.PromoteAfter = m.GetPromoteAfter().AsDuration()
		if s.PromoteAfter < minPromoteAfter || s.PromoteAfter > maxPromoteAfter {
			return s, invalid("stage.promote_after is %s; give %s to %s, or nothing to promote it yourself", s.PromoteAfter, minPromoteAfter, maxPromoteAfter)
		}
	}
	above := defaultHaltAbove
	if m.HaltAbove != nil {
		above = m.GetHaltAbove()
	}
	if !(above >= 0 && above <= 1) { // false for a NaN
		return s, invalid("stage.halt_above is %v; give 0 to 1, or nothing for %v", above, defaultHaltAbove)
	}
	s.HaltAbovePPM = uint32(above*1e6 + 0.5)
	return s, nil
}

// stage brings rules into force in some regions. It keeps what these regions decide now, to compare
// with.
func (s *ruleService) stage(ctx context.Context, change cluster.RulesChange, stage cluster.Stage) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	set, warnings, err := s.parse(change)
	if err != nil {
		return nil, err
	}
	if err := s.node.Stageable(set); err != nil {
		return nil, err
	}
	loop := s.leadership.Current()
	if loop == nil {
		return nil, errTakingCharge
	}
	if stage.Before, err = loop.DecisionsBefore(ctx, stage.Regions); err != nil {
		return nil, err
	}
	version, err := s.node.StageRules(ctx, change, stage)
	if err != nil {
		return nil, err
	}
	return s.applied(version, warnings), nil
}

// PromoteRules brings a staged version into force everywhere.
func (s *ruleService) PromoteRules(ctx context.Context, req *aliquotv1.PromoteRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), ""); err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).PromoteRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		version, err := s.node.EndRollout(ctx, req.GetVersion(), clusterstate.RolloutPromoted, "", req.GetAuthor())
		if err != nil {
			return nil, err
		}
		return s.applied(version, nil), nil
	})
}

// AbortRules ends a staged roll-out without promoting it.
func (s *ruleService) AbortRules(ctx context.Context, req *aliquotv1.AbortRulesRequest) (*aliquotv1.AbortRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), ""); err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).AbortRules, inForce, func(ctx context.Context) (*aliquotv1.AbortRulesResponse, error) {
		version, err := s.node.EndRollout(ctx, req.GetVersion(), clusterstate.RolloutAborted, "", req.GetAuthor())
		return &aliquotv1.AbortRulesResponse{Version: version}, err
	})
}

// rolloutShown returns the roll-out that is under way, or the last one if it was halted; else nil.
func rolloutShown(r *clusterstate.Rollout) *aliquotv1.Rollout {
	if r == nil || !r.UnderWay() && r.State != clusterstate.RolloutHalted {
		return nil
	}
	return &aliquotv1.Rollout{
		Version: r.Version, BaseVersion: r.Base, Regions: r.Regions, State: r.State, Reason: r.Reason,
		StartedUnixMs: r.StartedUnixMS, PromoteAtUnixMs: r.PromoteAtUnixMS, HaltAbove: float64(r.HaltAbovePPM) / 1e6,
	}
}
