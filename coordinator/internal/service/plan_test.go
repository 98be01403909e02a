package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aliquot/budget"
	"aliquot/cluster"
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
	s := ruleService{node: h.node, leadership: h.service.leadership, plans: &plan.Planner{}, parsing: cluster.NewTurns()}
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

// A plan waits for the one before it no longer than its caller does, and nothing is parsed for a caller who has gone.
func TestAPlanIsParsedForACallerWhoWaits(t *testing.T) {
	s := ruleService{node: nodeOfOne(t), parsing: cluster.NewTurns()}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	planned := func() error {
		done := make(chan error, 1)
		go func() {
			_, err := s.planPreview(over, &aliquotv1.PlanRulesRequest{Yaml: "rules: not a list"})
			done <- toRPC(err)
		}()
		return get(t, "the answer to a caller who has gone", done)
	}
	before, err := s.parsing.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := planned(); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("while another plan is parsed: %v", err)
	}
	before()
	if err := planned(); connect.CodeOf(err) != connect.CodeCanceled || strings.Contains(err.Error(), "rules:") {
		t.Errorf("once it is parsed: %v", err)
	}
}
