package session

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/policy"
)

// lastReport is a leader that remembers the latest report and answers none.
type lastReport struct {
	aliquotv1connect.LeaseServiceClient
	heard *aliquotv1.ReportRequest
}

func (l *lastReport) Report(_ context.Context, in *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	l.heard = in
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
}

// TestAReportNamesTheRulesOfItsLimits: a daemon has refused version 8 of the rules and decides by version 7. Its reports
// have the limits of version 7, and say so.
func TestAReportNamesTheRulesOfItsLimits(t *testing.T) {
	leader := &lastReport{}
	s := newTestSession(t, leader)
	s.setRules(t, oneRule, "r0")
	if err := s.policies.SetRules(policy.RuleText{Version: 8, YAML: "rules: of another time"}); err == nil {
		t.Fatal("these rules are not refused")
	}
	in := s.policies.Load().State()
	key := budget.KeyID{Rule: 1}
	s.report(t.Context(), budget.Report{Rules: in, Keys: []budget.KeyReport{{Key: key, Limit: budget.KeyLimit{Capacity: 1000, Rate: 10}}}})
	if got := leader.heard.GetRulesVersion(); got != in.Version {
		t.Errorf("limits of version %d are reported as those of version %d", in.Version, got)
	}
}
