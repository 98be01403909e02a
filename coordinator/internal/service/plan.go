package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/plan"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Time that a plan waits for the regions.
const (
	defaultPlanWait = 5 * time.Second
	maxPlanWait     = 30 * time.Second
	// planMargin is the part of the caller's deadline that is kept for the way of the answer.
	planMargin = 500 * time.Millisecond
)

// PlanRules asks every region what other rules would have decided about its recent requests.
func (s *ruleService) PlanRules(ctx context.Context, req *aliquotv1.PlanRulesRequest) (*aliquotv1.PlanRulesResponse, error) {
	wait, err := planWait(req)
	if err != nil {
		return nil, toRPC(err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+defaultDeadline)
	defer cancel()
	res, err := s.plan(ctx, req, wait)
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		res, err = toLeader(ctx, s.forward, req, (*peer).PlanRules)
	}
	return res, toRPC(err)
}

func planWait(req *aliquotv1.PlanRulesRequest) (time.Duration, error) {
	if len(req.GetFileName()) > maxFileNameBytes {
		return 0, invalid("file_name has %d bytes, at most %d", len(req.GetFileName()), maxFileNameBytes)
	}
	if req.GetWait() == nil {
		return defaultPlanWait, nil
	}
	wait := req.GetWait().AsDuration()
	if req.GetWait().CheckValid() != nil || wait <= 0 || wait > maxPlanWait {
		return 0, invalid("wait must be above 0 and at most %v; absent it is %v", maxPlanWait, defaultPlanWait)
	}
	return wait, nil
}

// plan is PlanRules on the leader.
func (s *ruleService) plan(ctx context.Context, req *aliquotv1.PlanRulesRequest, wait time.Duration) (*aliquotv1.PlanRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	res, err := s.planPreview(ctx, req)
	if err != nil {
		return nil, err
	}
	loop := s.leadership.Current()
	if loop == nil {
		return nil, errTakingCharge
	}
	names, live, err := loop.LiveRegions(ctx)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)-planMargin)
	}
	question, err := s.plans.Begin(req.GetYaml(), max(wait, 0), live)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-question.Done():
	case <-timeout.C:
	case <-ctx.Done():
	case <-loop.Done():
	}
	results := s.plans.End(question)
	select {
	case <-question.Done():
	default:
		if err := loop.Ended(); err != nil { // no region can answer any more
			return nil, fmt.Errorf("plan again: %w", err)
		}
	}
	plan.FillAnswer(res, names, live, results, wait)
	return res, ctx.Err()
}

// planPreview returns the part of the answer that needs no region: diff and warnings.
func (s *ruleService) planPreview(ctx context.Context, req *aliquotv1.PlanRulesRequest) (*aliquotv1.PlanRulesResponse, error) {
	done, err := s.parsing.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	name := cmp.Or(req.GetFileName(), "rules")
	set, warnings, err := rules.Parse(name, []byte(req.GetYaml()))
	if err != nil {
		return nil, err
	}
	res := &aliquotv1.PlanRulesResponse{}
	before := ""
	s.node.View(func(state *clusterstate.State) { res.BaseVersion, before = state.Rules.Version, state.Rules.YAML })
	for _, w := range warnings {
		res.Warnings = append(res.Warnings, w.String())
	}
	res.Warnings = append(res.Warnings, s.restartedRules(set)...)
	res.Warnings = append(res.Warnings, s.hiddenChanges(set)...)
	res.Diff, err = unifiedDiff(versionName(res.BaseVersion), name, before, req.GetYaml())
	return res, err
}
