package service

import (
	"errors"
	"testing"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// The leader asks the regions in their sessions, and these end with its epoch. A region that had no time to answer is not
// one that let the time pass.
func TestAPlanEndsWithTheEpoch(t *testing.T) {
	h := newHelloTest(t)
	session := h.open(2, 0)
	h.Step(t.Context(), budget.ReportReceived{Report: budget.Report{Epoch: session.GetEpoch(), Session: session.GetSession(), Seq: 1}})
	h.Publish()
	s := ruleService{node: h.node, leadership: h.service.leadership, plans: &plan.Planner{}}
	planned := make(chan error, 1)
	go func() {
		res, err := s.plan(t.Context(), &aliquotv1.PlanRulesRequest{Yaml: "rules: []"}, maxPlanWait)
		if err == nil {
			t.Errorf("planned: %v", res)
		}
		planned <- err
	}()
	h.runPosted() // which regions are live
	h.End(leader.ErrConfigChanged)
	if err := get(t, "the end of a plan", planned); !errors.Is(err, leader.ErrConfigChanged) {
		t.Errorf("%v; want %v", err, leader.ErrConfigChanged)
	}
}
