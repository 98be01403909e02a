package coordinator_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

const tieredRules = `# ours
tiers:
  free: {params: {limit: 100, window: 60}} # not much
rules:
  - id: r1
    tier: free
`

func block(pattern string) *aliquotv1.EditRulesRequest {
	return &aliquotv1.EditRulesRequest{Author: "ann", Edit: &aliquotv1.EditRulesRequest_Block{Block: &aliquotv1.ListEdit{Pattern: pattern}}}
}

func (r *running) yaml(t *testing.T) string {
	t.Helper()
	res, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetYaml()
}

// TestEdits: small changes keep the rest of the file, are versions with author and
// word like any other, and can be rolled back; two at once, through any nodes, both
// hold.
func TestEdits(t *testing.T) {
	all := startCluster(t, 3)
	_, followers := split(t, all)
	r := followers[0]
	r.applyRules(t, tieredRules)
	for i, edit := range []*aliquotv1.EditRulesRequest{
		{Edit: &aliquotv1.EditRulesRequest_Block{Block: &aliquotv1.ListEdit{Pattern: "sk_bad", Ttl: durationpb.New(time.Hour), Reason: "abuse"}}},
		{Edit: &aliquotv1.EditRulesRequest_Allow{Allow: &aliquotv1.ListEdit{Pattern: "sk_probe"}}, Comment: "the probe"},
		{Edit: &aliquotv1.EditRulesRequest_Unlist{Unlist: "sk_probe"}},
		{Edit: &aliquotv1.EditRulesRequest_Override{Override: &aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "sk_big", Limit: 7, Window: durationpb.New(time.Minute)}}},
		{Edit: &aliquotv1.EditRulesRequest_Override{Override: &aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "sk_big", Remove: true}}},
		{Edit: &aliquotv1.EditRulesRequest_Tier{Tier: &aliquotv1.TierEdit{Tier: "free", Capacity: 50, RefillRate: 0.25}}},
	} {
		edit.Author = "ann"
		res, err := r.rules.EditRules(t.Context(), edit)
		if err != nil || res.GetVersion() != uint64(i+2) || edit.GetTier() == nil && !strings.Contains(res.GetDiff(), "\n+") {
			t.Fatalf("edit %d: %v, %v", i, res, err)
		}
	}
	got := r.yaml(t)
	for _, want := range []string{"# ours\n", " # not much\n", "sk_bad", `reason: "abuse"`, `by: "ann"`, "until: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "sk_probe") || strings.Contains(got, "sk_big") {
		t.Errorf("what was taken away is there:\n%s", got)
	}
	history, err := r.rules.ListRuleVersions(t.Context(), &aliquotv1.ListRuleVersionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	comments := []string{`set the tier "free": capacity 50, refill_rate 0.25`, `remove the override of "sk_big" in r1`, `set the override of "sk_big" in r1`, `unlist "sk_probe"`, "the probe", `block "sk_bad": abuse`, ""}
	for i, v := range history.GetVersions() {
		if v.GetComment() != comments[i] || (v.GetAuthor() == "ann") != (v.GetVersion() > 1) {
			t.Errorf("version %d by %q: %q, want %q", v.GetVersion(), v.GetAuthor(), v.GetComment(), comments[i])
		}
	}
	again := block("sk_bad")
	again.GetBlock().Reason = "more"
	if res, err := r.rules.EditRules(t.Context(), again); err != nil || res.GetVersion() != 8 || strings.Contains(r.yaml(t), "until") {
		t.Errorf("blocked again, for good: %v, %v\n%s", res, err, r.yaml(t))
	}
	if res, err := r.rules.EditRules(t.Context(), again); err != nil || res.GetVersion() != 8 || res.GetDiff() != "" {
		t.Errorf("what is so already must make no version: %v, %v", res, err)
	}
	if res, err := r.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 1}); err != nil || res.GetVersion() != 9 || r.yaml(t) != tieredRules {
		t.Errorf("rolled back: %v, %v\n%s", res, err, r.yaml(t))
	}
	if res, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{}); err != nil || len(res.GetTiers()) != 1 || res.GetTiers()[0].GetCapacity() != 50 || res.GetTiers()[0].GetAuthor() != "ann" {
		t.Errorf("the value of a tier must outlive a rollback: %v, %v", res, err)
	}
	testEditsAtOnce(t, all)
}

// testEditsAtOnce goes on at version 9.
func testEditsAtOnce(t *testing.T, all []*running) {
	t.Helper()
	const each = 5
	var edits sync.WaitGroup
	for _, r := range all {
		for i := range each {
			edits.Go(func() {
				if _, err := r.rules.EditRules(t.Context(), block(fmt.Sprintf("sk_%s_%d", r.cfg.NodeID, i))); err != nil {
					t.Errorf("block through %s: %v", r.cfg.NodeID, err)
				}
			})
		}
	}
	edits.Wait()
	eventually(t, func() string {
		got := all[0].yaml(t)
		for _, r := range all {
			for i := range each {
				if pattern := fmt.Sprintf("sk_%s_%d", r.cfg.NodeID, i); !strings.Contains(got, pattern) {
					return pattern + " was lost"
				}
			}
		}
		return ""
	})
	if v := status(t, all[0]).GetRulesVersion(); v != 9+3*each {
		t.Errorf("version %d, want one for each edit after 9", v)
	}
}

func TestRefusedEdits(t *testing.T) {
	r := startCluster(t, 1)[0]
	if _, err := r.rules.EditRules(t.Context(), block("k")); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("an edit before the first rules: %v", err)
	}
	r.applyRules(t, tieredRules)
	stale := uint64(9)
	list := func(ttl time.Duration, pattern string) *aliquotv1.EditRulesRequest {
		return &aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Block{Block: &aliquotv1.ListEdit{Pattern: pattern, Ttl: durationpb.New(ttl)}}}
	}
	override := func(o *aliquotv1.OverrideEdit) *aliquotv1.EditRulesRequest {
		return &aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Override{Override: o}}
	}
	tier := func(e *aliquotv1.TierEdit) *aliquotv1.EditRulesRequest {
		return &aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Tier{Tier: e}}
	}
	for name, c := range map[string]struct {
		req  *aliquotv1.EditRulesRequest
		code connect.Code
	}{
		"nothing":             {&aliquotv1.EditRulesRequest{}, connect.CodeInvalidArgument},
		"no pattern":          {block(""), connect.CodeInvalidArgument},
		"everybody":           {block("*"), connect.CodeInvalidArgument},
		"a ttl of 0":          {list(0, "k"), connect.CodeInvalidArgument},
		"a ttl of a century":  {list(100*365*24*time.Hour, "k"), connect.CodeInvalidArgument},
		"a long pattern":      {block(strings.Repeat("k", 10_000)), connect.CodeInvalidArgument},
		"a long author":       {&aliquotv1.EditRulesRequest{Author: strings.Repeat("a", 300)}, connect.CodeInvalidArgument},
		"on no list":          {&aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Unlist{Unlist: "k"}}, connect.CodeNotFound},
		"unlist nothing":      {&aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Unlist{}}, connect.CodeInvalidArgument},
		"no such rule":        {override(&aliquotv1.OverrideEdit{RuleId: "r9", Pattern: "k", Capacity: 1, RefillRate: 1}), connect.CodeNotFound},
		"no such override":    {override(&aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "k", Remove: true}), connect.CodeNotFound},
		"no rule":             {override(&aliquotv1.OverrideEdit{Pattern: "k", Capacity: 1}), connect.CodeInvalidArgument},
		"no numbers":          {override(&aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "k"}), connect.CodeInvalidArgument},
		"numbers and removed": {override(&aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "k", Limit: 1, Remove: true}), connect.CodeInvalidArgument},
		"negative":            {override(&aliquotv1.OverrideEdit{RuleId: "r1", Pattern: "k", Limit: -1}), connect.CodeInvalidArgument},
		"no tier":             {tier(&aliquotv1.TierEdit{Limit: 1}), connect.CodeInvalidArgument},
		"no tier's numbers":   {tier(&aliquotv1.TierEdit{Tier: "free"}), connect.CodeInvalidArgument},
		"not a number":        {tier(&aliquotv1.TierEdit{Tier: "free", RefillRate: math.NaN(), Capacity: 1}), connect.CodeInvalidArgument},
		"infinite":            {tier(&aliquotv1.TierEdit{Tier: "free", RefillRate: math.Inf(1), Capacity: 1}), connect.CodeInvalidArgument},
		"the largest":         {tier(&aliquotv1.TierEdit{Tier: "free", Limit: math.MaxInt64}), connect.CodeInvalidArgument},
		"a negative window":   {tier(&aliquotv1.TierEdit{Tier: "free", Window: durationpb.New(-time.Second)}), connect.CodeInvalidArgument},
		"stale":               {&aliquotv1.EditRulesRequest{Edit: block("k").Edit, ExpectedVersion: &stale}, connect.CodeFailedPrecondition},
	} {
		if _, err := r.rules.EditRules(t.Context(), c.req); connect.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
	if _, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: limited(1), Stage: &aliquotv1.Stage{Regions: []string{"us"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.rules.EditRules(t.Context(), block("k")); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "promote or abort") {
		t.Errorf("an edit while a version is staged: %v", err)
	}
	if res, err := r.rules.EditRules(t.Context(), tier(&aliquotv1.TierEdit{Tier: "free", Limit: 5})); err != nil || res.GetVersion() != 3 {
		t.Errorf("a tier while a version is staged: %v, %v", res, err)
	}
	if got := r.yaml(t); got != tieredRules {
		t.Errorf("refused edits changed the rules:\n%s", got)
	}
}
