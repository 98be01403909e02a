package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

// A listener that is no coordinator answers 200 and nothing: no change was made.
func TestAnEmptyAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	}))
	defer stranger.Close()
	address := strings.TrimPrefix(stranger.URL, "http://")
	leader := newPeer(stranger.Client(), address)
	ctx := context.Background()
	for name, call := range map[string]func() (proto.Message, error){
		"ApplyRules":   func() (proto.Message, error) { return leader.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{}) },
		"RemoveMember": func() (proto.Message, error) { return leader.RemoveMember(ctx, &aliquotv1.RemoveMemberRequest{}) },
		"FenceRegion":  func() (proto.Message, error) { return leader.FenceRegion(ctx, &aliquotv1.FenceRegionRequest{}) },
		"SetTiming":    func() (proto.Message, error) { return leader.SetTiming(ctx, &aliquotv1.SetTimingRequest{}) },
		"Report":       func() (proto.Message, error) { return leader.Report(ctx, &aliquotv1.ReportRequest{}) },
	} {
		res, err := call()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := checkAnswer(address, res); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: the empty answer counts as success (%v)", name, err)
		}
	}
	if err := checkAnswer(address, &aliquotv1.ListBudgetsResponse{}); err != nil {
		t.Errorf("a list without budgets: %v", err)
	}
	if err := checkAnswer(address, &aliquotv1.ApplyRulesResponse{Version: 1}); err != nil {
		t.Errorf("an answer with content: %v", err)
	}
}

// A change of rules that outlives its deadline is no fault of the service: the caller is told that its time was over, and
// whether the change can still come into force.
func TestAChangeThatTookTooLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		says string
	}{
		{fmt.Errorf("%w: %w", cluster.ErrNotProposed, context.DeadlineExceeded), "nothing was changed"},
		{fmt.Errorf("%w: %w", cluster.ErrUnknownOutcome, context.DeadlineExceeded), "may or may not have been applied; read"},
	} {
		if err := toRPC(c.err); connect.CodeOf(err) != connect.CodeDeadlineExceeded || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want deadline_exceeded and %q", err, c.says)
		}
	}
	lost := fmt.Errorf("%w: leadership lost", cluster.ErrUnknownOutcome)
	if err := toRPC(lost); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v; want unavailable", err)
	}
}

// A daemon's Hello that no proof of leadership was made for is not told of a command: there was none.
func TestAProofThatTookTooLong(t *testing.T) {
	t.Parallel()
	for ended, code := range map[error]connect.Code{
		context.DeadlineExceeded: connect.CodeDeadlineExceeded, context.Canceled: connect.CodeUnavailable, cluster.ErrShutdown: connect.CodeUnavailable,
	} {
		if err := toRPC(fmt.Errorf("%w: %w", cluster.ErrNotProved, ended)); connect.CodeOf(err) != code || strings.Contains(err.Error(), "command") {
			t.Errorf("%v; want %v", err, code)
		}
	}
}

// detailOf returns the one detail of an error with a code.
func detailOf[M proto.Message](t *testing.T, err error, code connect.Code) M {
	t.Helper()
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok || answer.Code() != code || len(answer.Details()) != 1 {
		t.Fatalf("no %v with a detail: %v", code, err)
	}
	value, err := answer.Details()[0].Value()
	if err != nil {
		t.Fatal(err)
	}
	detail, is := value.(M)
	if !is {
		t.Fatalf("the detail of %v is %v", answer, value)
	}
	return detail
}

// The places of problems in rules are data of the error, also of one that the leader has answered.
func TestRefusedRulesHavePlaces(t *testing.T) {
	t.Parallel()
	_, _, refused := rules.Parse("r.yaml", []byte("rulez: []\n"))
	want := &aliquotv1.RulesProblem{File: "r.yaml", Line: 1, Column: 1, Message: `unknown field "rulez" in the rules file; did you mean "rules"?`}
	places := func(err error) *aliquotv1.RulesProblems {
		return detailOf[*aliquotv1.RulesProblems](t, err, connect.CodeInvalidArgument)
	}
	if got := places(toRPC(refused)).GetProblems(); len(got) != 2 || !proto.Equal(got[0], want) {
		t.Errorf("%v", got)
	}
	leader := httptest.NewServer(connect.NewUnaryHandlerSimple(aliquotv1connect.RuleServiceApplyRulesProcedure,
		func(context.Context, *aliquotv1.ApplyRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
			return nil, toRPC(refused)
		}))
	defer leader.Close()
	address := strings.TrimPrefix(leader.URL, "http://")
	_, err := newPeer(leader.Client(), address).ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{})
	if got := places(leaderError(address, nil, err)).GetProblems(); len(got) != 2 || !proto.Equal(got[0], want) {
		t.Errorf("passed on: %v", got)
	}
}

// A leader that went away with a request may have made the change; one that could not be dialled has not.
func TestALeaderThatWentAway(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	change, question := &aliquotv1.ApplyRulesRequest{}, &aliquotv1.PlanRulesRequest{}
	for _, c := range []struct {
		req  any
		err  error
		says string
	}{
		{change, dial, "could not be reached"},
		{change, io.ErrUnexpectedEOF, "a change may or may not have been made"},
		{question, dial, "could not be reached"},
		{question, io.ErrUnexpectedEOF, "nothing was changed"},
	} {
		got := leaderError("here", c.req, connect.NewError(connect.CodeUnavailable, c.err))
		if connect.CodeOf(got) != connect.CodeUnavailable || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%T, %v: %v, want %q", c.req, c.err, got, c.says)
		}
	}
}
