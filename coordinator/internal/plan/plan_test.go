package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func found(id uint64) *aliquotv1.PlanResult {
	return &aliquotv1.PlanResult{
		Id: id, Replayed: &aliquotv1.RegionPlan{Requests: 10, Keys: 2, OneIn: 4, Span: durationpb.New(time.Minute)},
		Rules: []*aliquotv1.RulePlan{
			{RuleId: "a", NewlyDeniedKeys: 1, NewlyDeniedRequests: 3, DeniedKeyHashes: []string{"AAAAAAAAAAAAAAAAAAAAAA"}},
			{RuleId: "b", NewlyDeniedKeys: 5, NewlyDeniedRequests: 3, NewlyAllowedKeys: 1, NewlyAllowedRequests: 2},
		},
		NewlyDeniedRequests: 4, NewlyAllowedRequests: 2,
	}
}

// TestAPlanCollects: regions are asked once in each session, and summed up.
func TestAPlanCollects(t *testing.T) {
	var b Planner
	if b.TaskFor(0, leader.SessionID{Epoch: 1, Session: 1}) != nil {
		t.Fatal("asked without a plan")
	}
	p, err := b.Begin("rules: []", time.Second, []int{0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Begin("rules: []", time.Second, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one at once: %v", err)
	}
	task := b.TaskFor(0, leader.SessionID{Epoch: 1, Session: 1})
	if task.GetYaml() != "rules: []" || task.GetWithinMicros() != 1e6 {
		t.Fatalf("%v", task)
	}
	if b.TaskFor(0, leader.SessionID{Epoch: 1, Session: 1}) != nil || b.TaskFor(1, leader.SessionID{Epoch: 1, Session: 7}) != nil {
		t.Error("asked twice, or one that was not to be")
	}
	if b.TaskFor(0, leader.SessionID{Epoch: 1, Session: 2}) == nil {
		t.Error("in a new session it has to be asked again: the answer may be lost")
	}
	b.Accept(0, found(task.GetId()+1)) // of another leader's plan
	b.Accept(1, found(task.GetId()))   // was not asked
	b.Accept(0, nil)
	b.Accept(0, found(task.GetId()))
	b.Accept(0, found(task.GetId()))
	if b.TaskFor(0, leader.SessionID{Epoch: 1, Session: 3}) != nil {
		t.Error("asked again although it has answered")
	}
	select {
	case <-p.done:
		t.Fatal("done before all have answered")
	default:
	}
	b.Accept(2, found(task.GetId()))
	<-p.done
	res := &aliquotv1.PlanRulesResponse{}
	FillAnswer(res, []string{"us", "eu", "ap", "", "me"}, []int{0, 2}, b.End(p), time.Second)
	if len(res.Regions) != 4 || res.Regions[0].GetRegion() != "us" || res.Regions[0].GetOneIn() != 4 ||
		res.Regions[1].GetError() == "" || res.Regions[3].GetRegion() != "me" {
		t.Errorf("%v", res.Regions)
	}
	if res.NewlyDeniedKeys != 12 || res.NewlyDeniedRequests != 8 || res.NewlyAllowedKeys != 2 || res.NewlyAllowedRequests != 4 {
		t.Errorf("%v", res)
	}
	if len(res.Rules) != 2 || res.Rules[0].GetRuleId() != "b" || res.Rules[0].GetNewlyDeniedKeys() != 10 || len(res.Rules[1].GetDeniedKeyHashes()) != 1 {
		t.Errorf("%v", res.Rules)
	}
	if _, err := b.Begin("rules: []", time.Second, nil); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestAPlanThatNobodyAnswers ends with the reasons.
func TestAPlanThatNobodyAnswers(t *testing.T) {
	var b Planner
	p, err := b.Begin("rules: []", time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	res := &aliquotv1.PlanRulesResponse{}
	FillAnswer(res, []string{"us", "eu"}, []int{1}, b.End(p), 5*time.Second)
	if !strings.Contains(res.Regions[0].GetError(), "not heard") || !strings.Contains(res.Regions[1].GetError(), "within 5s") {
		t.Errorf("%v", res.Regions)
	}
}

// TestHostilePlanResults are told as such, and add nothing.
func TestHostilePlanResults(t *testing.T) {
	for name, spoil := range map[string]func(*aliquotv1.PlanResult){
		"negative":       func(r *aliquotv1.PlanResult) { r.Rules[0].NewlyDeniedKeys = -1 },
		"huge":           func(r *aliquotv1.PlanResult) { r.NewlyDeniedRequests = 1 << 62 },
		"too many rules": func(r *aliquotv1.PlanResult) { r.Rules = make([]*aliquotv1.RulePlan, maxRules+1) },
		"a long id":      func(r *aliquotv1.PlanResult) { r.Rules[0].RuleId = strings.Repeat("x", maxRuleID+1) },
		"an escape":      func(r *aliquotv1.PlanResult) { r.Rules[0].RuleId = "\x1b[2J" },
		"an error":       func(r *aliquotv1.PlanResult) { r.Replayed.Error = "\x1b[2J" },
		"a hash":         func(r *aliquotv1.PlanResult) { r.Rules[0].DeniedKeyHashes = []string{"sk_live_1"} },
		"many hashes": func(r *aliquotv1.PlanResult) {
			r.Rules[0].DeniedKeyHashes = make([]string, maxExamples+1)
		},
		"a span": func(r *aliquotv1.PlanResult) { r.Replayed.Span = &durationpb.Duration{Seconds: -1} },
	} {
		var b Planner
		p, err := b.Begin("rules: []", time.Second, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		hostile := proto.CloneOf(found(p.task.GetId()))
		spoil(hostile)
		b.Accept(0, hostile)
		res := &aliquotv1.PlanRulesResponse{}
		FillAnswer(res, []string{"us"}, []int{0}, b.End(p), time.Second)
		if !strings.Contains(res.Regions[0].GetError(), "cannot be right") || len(res.Rules) > 0 || res.NewlyDeniedRequests != 0 {
			t.Errorf("%s: %v", name, res)
		}
	}
}
