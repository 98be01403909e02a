package coordinator_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// inUS stages rules in one region.
func inUS(capacity int) *aliquotv1.ApplyRulesRequest {
	return &aliquotv1.ApplyRulesRequest{Yaml: limited(capacity), Author: "ann", Stage: &aliquotv1.Stage{Regions: []string{"us"}}}
}

// threeRegions are live regions that decide as us and the others are told to, between
// two reports of some 20 or more a second.
func threeRegions(t *testing.T, r *running, decide func(name string, version uint64) (allowed, denied uint64)) {
	t.Helper()
	var all []*region
	for _, name := range []string{"us", "eu", "ap"} {
		one := newRegion(r.lease, name)
		one.decide = func(version uint64) (uint64, uint64) { return decide(name, version) }
		all = append(all, one)
	}
	inBackground(t, func(string, bool) []*aliquotv1.KeyReport { return nil }, all...)
}

// waitVersions waits until the regions say that they have these versions.
func waitVersions(t *testing.T, r *running, us, others uint64) {
	t.Helper()
	eventually(t, func() string {
		for _, region := range status(t, r).GetRegions() {
			want := others
			if region.GetName() == "us" {
				want = us
			}
			if region.GetRulesVersion() != want {
				return fmt.Sprintf("%s has version %d, want %d", region.GetName(), region.GetRulesVersion(), want)
			}
		}
		return ""
	})
}

func steadily(string, uint64) (allowed, denied uint64) { return 100, 0 }

// TestStagedRollout: staged rules reach their region alone, through the death of a
// leader, until an operator promotes or aborts them; nothing else changes meanwhile.
func TestStagedRollout(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	leader, followers := split(t, all)
	r := followers[0]
	r.applyRules(t, limited(100))
	threeRegions(t, r, steadily)
	waitVersions(t, r, 1, 1)

	res, err := r.rules.ApplyRules(t.Context(), inUS(200))
	if err != nil || res.GetVersion() != 2 || !strings.Contains(res.GetDiff(), "capacity: 200") {
		t.Fatalf("stage: %v, %v", res, err)
	}
	waitVersions(t, r, 2, 1)
	testStaged(t, r)
	for name, err := range map[string]error{
		"apply":            errorOf(r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: limited(1)})),
		"stage":            errorOf(r.rules.ApplyRules(t.Context(), inUS(1))),
		"rollback":         errorOf(r.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 1})),
		"promote another":  errorOf(r.rules.PromoteRules(t.Context(), &aliquotv1.PromoteRulesRequest{Version: 1})),
		"abort an unknown": errorOf(r.rules.AbortRules(t.Context(), &aliquotv1.AbortRulesRequest{Version: 3})),
	} {
		if connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%s while version 2 is staged: %v", name, err)
		}
	}

	leader.stop(t)
	eventually(t, func() string {
		res, err := r.rules.PromoteRules(t.Context(), &aliquotv1.PromoteRulesRequest{Version: 2, Author: "bob"})
		if err != nil || res.GetVersion() != 2 {
			return fmt.Sprintf("promote: %v, %v", res, err)
		}
		return ""
	})
	waitVersions(t, r, 2, 2)
	got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	if err != nil || got.GetVersion() != 2 || got.GetYaml() != limited(200) || got.GetAuthor() != "ann" || got.GetRollout() != nil {
		t.Errorf("promoted: %v, %v", got, err)
	}

	if res, err := r.rules.ApplyRules(t.Context(), inUS(300)); err != nil || res.GetVersion() != 3 {
		t.Fatalf("stage: %v, %v", res, err)
	}
	waitVersions(t, r, 3, 2)
	aborted, err := r.rules.AbortRules(t.Context(), &aliquotv1.AbortRulesRequest{Version: 3, Author: "bob"})
	if err != nil || aborted.GetVersion() != 4 {
		t.Fatalf("abort: %v, %v", aborted, err)
	}
	waitVersions(t, r, 4, 4)
	got, err = r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	if err != nil || got.GetVersion() != 4 || got.GetYaml() != limited(200) || got.GetComment() != "version 3 aborted" {
		t.Errorf("aborted: %v, %v", got, err)
	}
}

// testStaged looks at version 2 staged over version 1.
func testStaged(t *testing.T, r *running) {
	t.Helper()
	got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	o := got.GetRollout()
	if err != nil || got.GetVersion() != 1 || o.GetVersion() != 2 || o.GetBaseVersion() != 1 || o.GetState() != "staged" ||
		len(o.GetRegions()) != 1 || o.GetHaltAbove() != 0.05 || o.GetPromoteAtUnixMs() != 0 || o.GetStartedUnixMs() == 0 {
		t.Errorf("staged: %v, %v", got, err)
	}
	if _, body := r.get(t, "http://"+r.Ops+"/metrics"); !strings.Contains(body, `aliquot_rules_rollout{state="staged"} 1`) {
		t.Error("the metric does not show the roll-out")
	}
	// What the staged region may admit beyond the limit in force is told.
	eventually(t, func() string {
		b, err := r.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "r1", Key: map[string]string{"api_key": "k"}})
		if excess := b.GetBudget().GetResidualExcess(); err != nil || excess < 33 || excess > 34 {
			return fmt.Sprintf("residual excess %v, want the third of 100 more: %v", excess, err)
		}
		return ""
	})
}

func errorOf[T any](_ *T, err error) error { return err }

// TestRolloutIsHalted: the denials of the staged region jump, and everyone goes back.
func TestRolloutIsHalted(t *testing.T) {
	t.Parallel()
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	var denying atomic.Bool
	threeRegions(t, r, func(name string, version uint64) (uint64, uint64) {
		switch {
		case version == 2 && denying.Load():
			return 80, 20
		case name != "us":
			return 0, 100 // as it may be where nothing is staged
		}
		return 98, 2
	})
	waitVersions(t, r, 1, 1)
	eventually(t, func() string { // so many requests come in a second or so
		res, err := r.rules.ApplyRules(t.Context(), inUS(200))
		return errorText(errorOf(res, err))
	})
	waitVersions(t, r, 2, 1)
	denying.Store(true)
	waitVersions(t, r, 3, 3)
	got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	o := got.GetRollout()
	if err != nil || got.GetVersion() != 3 || got.GetYaml() != limited(100) || o.GetState() != "halted" || o.GetVersion() != 2 ||
		!strings.HasPrefix(o.GetReason(), "us denies ") || got.GetAuthor() != "coordinator c1" {
		t.Errorf("halted: %v, %v", got, err)
	}
	if _, body := r.get(t, "http://"+r.Ops+"/metrics"); !strings.Contains(body, `aliquot_rules_rollout{state="halted"} 1`) {
		t.Error("the metric does not show the halt")
	}
}

// TestRolloutPromotesItself: nothing jumps, so the version is in force everywhere after
// the time that was asked for.
func TestRolloutPromotesItself(t *testing.T) {
	t.Parallel()
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	threeRegions(t, r, steadily)
	waitVersions(t, r, 1, 1)
	req := inUS(200)
	req.Stage.PromoteAfter = durationpb.New(10 * time.Second)
	began := time.Now()
	if res, err := r.rules.ApplyRules(t.Context(), req); err != nil || res.GetVersion() != 2 {
		t.Fatalf("stage: %v, %v", res, err)
	}
	waitVersions(t, r, 2, 2) // that the others keep the version before until then is TestStagedRollout's
	if took := time.Since(began); took < 10*time.Second {
		t.Errorf("promoted after %s", took)
	}
}

func TestStagesRefused(t *testing.T) {
	r := startCluster(t, 1)[0]
	if _, err := r.rules.ApplyRules(t.Context(), inUS(1)); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a stage of the first rules: %v", err)
	}
	r.applyRules(t, limited(100))
	below, above := -0.1, 1.1
	for name, stage := range map[string]*aliquotv1.Stage{
		"nowhere":           {},
		"everywhere":        {Regions: []string{"us", "eu", "ap"}},
		"an unknown region": {Regions: []string{"mars"}},
		"too soon":          {Regions: []string{"us"}, PromoteAfter: durationpb.New(9 * time.Second)},
		"too late":          {Regions: []string{"us"}, PromoteAfter: durationpb.New(25 * time.Hour)},
		"below 0":           {Regions: []string{"us"}, HaltAbove: &below},
		"above 1":           {Regions: []string{"us"}, HaltAbove: &above},
	} {
		_, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: limited(1), Stage: stage})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	moved := strings.Replace(limited(100), "id: r1", "id: r1\n    placement: split", 1)
	for name, c := range map[string]struct{ yaml, why string }{
		"another placement": {moved, `rule "r1" changes its placement (auto to split)`},
		"a rule left out":   {strings.Replace(limited(100), "r1", "r2", 1), `rule "r1" is left out`},
	} {
		_, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: c.yaml, Stage: &aliquotv1.Stage{Regions: []string{"us"}}})
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), "everywhere at once, without a stage") {
			t.Errorf("%s: %v", name, err)
		}
	}
	warned := func(what string, warnings []string, err error) {
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `rule "r1" changes its placement (auto to split): its clients begin with full buckets`) {
			t.Errorf("%s: warnings %q, %v", what, warnings, err)
		}
	}
	plan, err := r.rules.PlanRules(t.Context(), &aliquotv1.PlanRulesRequest{Yaml: moved})
	warned("a plan", plan.GetWarnings(), err)
	applied, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: moved})
	warned("without a stage", applied.GetWarnings(), err)
	for _, err := range []error{
		errorOf(r.rules.PromoteRules(t.Context(), &aliquotv1.PromoteRulesRequest{Version: 1})),
		errorOf(r.rules.AbortRules(t.Context(), &aliquotv1.AbortRulesRequest{Version: 1})),
	} {
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "no roll-out of version 1") {
			t.Errorf("no roll-out is under way: %v", err)
		}
	}
}
