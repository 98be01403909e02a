package coordinator_test

import (
	"fmt"
	"math"
	"slices"
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

// entries are the entries in force and the latest changes of them.
func (r *running) entries(t *testing.T) *aliquotv1.GetRulesResponse {
	t.Helper()
	res, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{EntryChanges: true})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestEdits: small changes leave the file as it is; they have a revision, an author and a word
// why of their own, and no roll-back takes them away. Two at once, through any nodes, both hold.
func TestEdits(t *testing.T) {
	t.Parallel()
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
		if err != nil || res.GetVersion() != uint64(i+2) || res.GetEntryChange().GetRevision() != uint64(i+1) || res.GetDiff() != "" {
			t.Fatalf("edit %d: %v, %v", i, res, err)
		}
	}
	if got := r.yaml(t); got != tieredRules {
		t.Errorf("the file has changed:\n%s", got)
	}
	got := r.entries(t)
	comments := []string{`set the tier "free": capacity 50, refill_rate 0.25`, `remove the override of "sk_big" in r1`, `set the override of "sk_big" in r1`, `unlist "sk_probe"`, "the probe", `block "sk_bad": abuse`}
	for i, c := range got.GetEntryChanges() {
		if c.GetComment() != comments[i] || c.GetAuthor() != "ann" || c.GetRevision() != uint64(len(comments)-i) || c.GetVersion() != c.GetRevision()+1 {
			t.Errorf("%v, want %q", c, comments[i])
		}
	}
	if e := got.GetEntries(); len(e) != 2 || e[0].GetName() != "sk_bad" || e[0].GetReason() != "abuse" || e[0].GetAuthor() != "ann" || e[0].GetUntilUnixMs() == 0 ||
		e[1].GetName() != "free" || e[1].GetCapacity() != 50 || e[1].GetRuleIds()[0] != "r1" || got.GetEntriesRevision() != 6 || got.GetAppliedVersion() != 1 {
		t.Errorf("%v", got)
	}
	again := block("sk_bad")
	again.GetBlock().Reason = "more"
	if res, err := r.rules.EditRules(t.Context(), again); err != nil || res.GetVersion() != 8 || r.entries(t).GetEntries()[0].GetUntilUnixMs() != 0 {
		t.Errorf("blocked again, for good: %v, %v", res, err)
	}
	if res, err := r.rules.EditRules(t.Context(), again); err != nil || res.GetVersion() != 8 || res.GetEntryChange() != nil {
		t.Errorf("what is so already must make no version: %v, %v", res, err)
	}
	r.applyRules(t, "rules: []\n")
	if got := r.entries(t).GetEntries(); len(got) != 2 || got[1].GetWithoutEffect() != `no rule has the tier "free"` {
		t.Errorf("%v", got)
	}
	if res, err := r.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 1}); err != nil || res.GetVersion() != 10 || r.yaml(t) != tieredRules || len(r.entries(t).GetEntries()) != 2 {
		t.Errorf("rolled back: %v, %v", res, err)
	}
	history, err := r.rules.ListRuleVersions(t.Context(), &aliquotv1.ListRuleVersionsRequest{})
	if err != nil || len(history.GetVersions()) != 3 || !history.GetVersions()[0].GetInForce() {
		t.Errorf("the history of the file has the file's versions: %v, %v", history, err)
	}
	testEditsAtOnce(t, all)
}

// testEditsAtOnce goes on at version 10.
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
		if got := len(all[0].entries(t).GetEntries()); got != 2+3*each {
			return fmt.Sprintf("%d entries", got)
		}
		return ""
	})
	if v := status(t, all[0]).GetRulesVersion(); v != 10+3*each {
		t.Errorf("version %d, want one for each edit after 10", v)
	}
	if text, err := all[0].rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{Version: 10 + 3*each}); err != nil || text.GetYaml() != tieredRules {
		t.Errorf("the text of a version that changed entries: %v, %v", text, err)
	}
}

// The leader takes an entry away once its time is over, on every node and without anybody
// asking.
func TestTheLeaderEndsEntries(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	all[0].applyRules(t, tieredRules)
	short := block("sk_bad")
	short.GetBlock().Ttl = durationpb.New(time.Second)
	if _, err := all[0].rules.EditRules(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		eventually(t, func() string {
			if got := r.entries(t); len(got.GetEntries()) != 0 {
				return fmt.Sprint(got.GetEntries())
			}
			return ""
		})
	}
	if last := all[0].entries(t).GetEntryChanges()[0]; last.GetRemovals() != 1 || last.GetComment() != "its time is over" || last.GetAuthor() != "coordinator" {
		t.Errorf("%v", last)
	}
}

// Many entries at once are one change, or none.
func TestImportOfEntries(t *testing.T) {
	r := startCluster(t, 1)[0]
	r.applyRules(t, tieredRules)
	many := func(e *aliquotv1.EntriesEdit) (*aliquotv1.ApplyRulesResponse, error) {
		return r.rules.EditRules(t.Context(), &aliquotv1.EditRulesRequest{Author: "ann", Edit: &aliquotv1.EditRulesRequest_Entries{Entries: e}})
	}
	put := []*aliquotv1.Entry{{Kind: "block", Name: "a", Author: "bob"}, {Kind: "override", RuleId: "gone", Name: "k", Limit: 5}}
	if _, err := many(&aliquotv1.EntriesEdit{Put: put}); connect.CodeOf(err) != connect.CodeNotFound || len(r.entries(t).GetEntries()) != 0 {
		t.Errorf("of a rule that is not there: %v", err)
	}
	res, err := many(&aliquotv1.EntriesEdit{Put: put, WithoutEffect: true})
	if err != nil || res.GetEntryChange().GetPuts() != 2 || len(res.GetWarnings()) != 1 || !strings.Contains(res.GetWarnings()[0], "without effect") {
		t.Errorf("%v, %v", res, err)
	}
	if got := r.entries(t).GetEntries(); got[0].GetAuthor() != "bob" || got[1].GetAuthor() != "ann" || got[1].GetWithoutEffect() == "" {
		t.Errorf("%v", got)
	}
	if res, err := many(&aliquotv1.EntriesEdit{Replace: true}); err != nil || res.GetEntryChange().GetRemovals() != 2 || len(r.entries(t).GetEntries()) != 0 {
		t.Errorf("replaced by nothing: %v, %v", res, err)
	}
	for name, e := range map[string]*aliquotv1.EntriesEdit{
		"nothing": {}, "no kind": {Put: []*aliquotv1.Entry{{Name: "a"}}}, "no name": {Remove: []*aliquotv1.Entry{{Kind: "block"}}}, "too many": {Put: make([]*aliquotv1.Entry, 20_000)},
	} {
		if _, err := many(e); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A plan and an apply name the changes of a file that an entry hides.
func TestWarningsOfEntriesThatHide(t *testing.T) {
	r := startCluster(t, 1)[0]
	r.applyRules(t, tieredRules)
	if _, err := r.rules.EditRules(t.Context(), block("sk_bad")); err != nil {
		t.Fatal(err)
	}
	const want = "the file changes a list for \"sk_bad\"; the entry block \"sk_bad\" stays above that; `aliquot entries remove block sk_bad` ends that"
	file := tieredRules + "whitelist: [sk_bad]\n"
	if res, err := r.rules.PlanRules(t.Context(), &aliquotv1.PlanRulesRequest{Yaml: file, Wait: durationpb.New(time.Millisecond)}); err != nil || !slices.Contains(res.GetWarnings(), want) {
		t.Errorf("plan: %v, %v", res, err)
	}
	if res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: file}); err != nil || !slices.Contains(res.GetWarnings(), want) {
		t.Errorf("apply: %v, %v", res, err)
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
	if res, err := r.rules.EditRules(t.Context(), block("k")); err != nil || res.GetVersion() != 3 {
		t.Errorf("a block while a version is staged: %v, %v", res, err)
	}
	if res, err := r.rules.EditRules(t.Context(), tier(&aliquotv1.TierEdit{Tier: "free", Limit: 5})); err != nil || res.GetVersion() != 5 {
		t.Errorf("a tier while a version is staged: %v, %v", res, err)
	}
	if got := r.yaml(t); got != tieredRules {
		t.Errorf("refused edits changed the rules:\n%s", got)
	}
}
