package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// snapshotTest is the service of a node that leads alone.
func snapshotTest(t *testing.T) (*clusterService, *cluster.Node) {
	node := nodeOfOne(t)
	return &clusterService{
		node: node, regions: &regionService{node: node},
		rules: &ruleService{node: node, metrics: newMetrics(prometheus.NewRegistry()), changes: cluster.NewTurns()},
	}, node
}

// ledgerNow is what regions could be enforcing: nothing of it may go back.
type ledgerNow struct {
	Epoch  uint64
	Config budget.Config
	Shares map[budget.KeyID][]budget.Share
}

func ledgerIn(node *cluster.Node) (out ledgerNow) {
	node.View(func(s *clusterstate.State) {
		out = ledgerNow{s.Ledger.Epoch, s.Ledger.Config, map[budget.KeyID][]budget.Share{}}
		out.Config.Regions = slices.Clone(out.Config.Regions)
		for _, k := range s.Ledger.Keys() {
			out.Shares[k] = slices.Clone(s.Ledger.Shares(k))
		}
	})
	return out
}

// A restore brings the rules and the entries back exactly. What was handed out since the snapshot stays handed out: the
// ledger, its epoch, the floors and the timing are those of now.
func TestARestoreTakesNoBudgetBack(t *testing.T) {
	ctx := t.Context()
	s, node := snapshotTest(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hour := time.Now().Add(time.Hour).UnixMilli()
	put := []rules.Entry{
		{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: "sk_bad"}, Note: rules.Note{Reason: "abuse", UntilMS: hour}},
		{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "r1", Name: "sk_big"}, ParamsText: rules.ParamsText{Capacity: 200, RefillRate: "20"}},
	}
	_, err := node.ChangeEntries(ctx, cluster.EntriesChange{Put: put, Author: "ann"})
	must(err)
	saved := s.snapshot()

	_, err = node.ApplyRules(ctx, cluster.RulesChange{YAML: "rules:\n  - {id: r1, key: [api_key], params: {capacity: 5, refill_rate: 1}}\n", FileName: "f"})
	must(err)
	_, err = node.ChangeEntries(ctx, cluster.EntriesChange{Replace: true, Put: []rules.Entry{{EntryID: rules.EntryID{Kind: rules.AllowEntry, Name: "sk_new"}}}})
	must(err)
	epoch, err := node.CreateEpoch(ctx)
	must(err)
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	must(node.CommitPlan(ctx, budget.Plan{Epoch: epoch, Changes: []budget.Entry{{Key: budget.KeyID{Rule: 1, Hash: [16]byte{7}}, Shares: []budget.Share{half, half}}}}))
	must(node.SetTiming(ctx, 20*time.Second, budget.MinRhoPPM, ""))
	must(node.ChangeRegion(ctx, clusterstate.AddRegion, "ap", 2, ""))
	before := ledgerIn(node)

	saved.Entries = append(saved.Entries, &aliquotv1.Entry{Kind: "block", Name: "sk_over", UntilUnixMs: time.Now().UnixMilli() - 1})
	res, err := s.restore(ctx, proto.CloneOf(saved), "bob", "")
	must(err)
	if after := ledgerIn(node); !reflect.DeepEqual(after, before) || len(after.Shares) != 1 {
		t.Errorf("the ledger changed:\n%+v\nwas\n%+v", after, before)
	}
	now := s.snapshot()
	if now.GetRulesYaml() != saved.GetRulesYaml() || now.GetRulesVersion() != res.GetRulesVersion() || now.GetRulesVersion() <= saved.GetRulesVersion() {
		t.Errorf("version %d, answer %d:\n%s", now.GetRulesVersion(), res.GetRulesVersion(), now.GetRulesYaml())
	}
	if len(now.Entries) != 2 || res.GetEntries() != 2 || res.GetEntriesOver() != 1 {
		t.Fatalf("entries %v, answer %v", now.Entries, res)
	}
	for i, e := range now.Entries {
		was := saved.Entries[i]
		if e.Kind != was.Kind || e.Name != was.Name || e.RuleId != was.RuleId || e.Capacity != was.Capacity || e.RefillRate != was.RefillRate || e.UntilUnixMs != was.UntilUnixMs || e.Reason != was.Reason || e.Author != was.Author {
			t.Errorf("entry %v, want %v", e, was)
		}
	}
	kept := strings.Join(res.GetNotRestored(), "\n")
	for _, want := range []string{"region ap was not declared, and is now", "the lease was 10s"} {
		if !strings.Contains(kept, want) {
			t.Errorf("%q is not in what was not restored:\n%s", want, kept)
		}
	}
	if again, err := s.restore(ctx, proto.CloneOf(saved), "bob", ""); err != nil || again.GetRulesVersion() != res.GetRulesVersion() {
		t.Errorf("the same again made version %d, %v", again.GetRulesVersion(), err)
	}
}

// An unsafe restore is refused, and nothing changes.
func TestRefusedRestores(t *testing.T) {
	s, node := snapshotTest(t)
	saved := s.snapshot()
	refused := func(shot *aliquotv1.Snapshot, want string) {
		t.Helper()
		_, err := s.restore(t.Context(), shot, "", "")
		if connect.CodeOf(toRPC(err)) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if now := s.snapshot(); now.GetRulesVersion() != saved.GetRulesVersion() {
			t.Errorf("version %d after a refusal", now.GetRulesVersion())
		}
	}
	other := proto.CloneOf(saved)
	other.ClusterId = "another"
	refused(other, "it is of cluster another, and this is cluster "+saved.GetClusterId())
	empty := proto.CloneOf(saved)
	empty.RulesVersion, empty.RulesYaml = 0, ""
	refused(empty, "there were no rules when it was saved")
	change := cluster.RulesChange{YAML: strings.Replace(saved.GetRulesYaml(), "100", "90", 1), FileName: "f"}
	if _, err := node.StageRules(t.Context(), change, cluster.Stage{Regions: []string{"us"}}); err != nil {
		t.Fatal(err)
	}
	refused(saved, "version 2 of the rules is staged; promote or abort it first")
}

// A restore that ends between its two changes says that the rules are restored, and nothing of what became of the
// entries but the error of their change, whose details a client reads.
func TestARestoreThatEndsHalfway(t *testing.T) {
	s, node := snapshotTest(t)
	saved := s.snapshot()
	turns := make(cluster.Turns) // without room: each turn begins and ends when this test says so
	s.rules.changes = turns
	halfway := func(between func(cancel func()), entriesChange bool) error {
		t.Helper()
		text := strings.Replace(saved.GetRulesYaml(), "100", "90", 1)
		if _, err := node.ApplyRules(t.Context(), cluster.RulesChange{YAML: text, FileName: "f"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		restored := make(chan error, 1)
		go func() {
			_, err := s.restore(ctx, proto.CloneOf(saved), "bob", "")
			restored <- toRPC(err)
		}()
		<-turns
		turns <- struct{}{} // the rules are restored
		between(cancel)
		if entriesChange {
			<-turns
			turns <- struct{}{}
		}
		err := get(t, "the end of a restore", restored)
		if !strings.Contains(err.Error(), "the rules are restored as version ") || !strings.Contains(err.Error(), "restore again") || strings.Contains(err.Error(), "the entries are not") {
			t.Error(err)
		}
		return err
	}
	if err := halfway(func(cancel func()) { cancel() }, false); !strings.Contains(err.Error(), "nothing was changed, because") {
		t.Errorf("its time was over: %v", err)
	}
	err := halfway(func(func()) {
		block := rules.Entry{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: "a"}}
		if _, err := node.ChangeEntries(t.Context(), cluster.EntriesChange{Put: []rules.Entry{block}}); err != nil {
			t.Error(err)
		}
	}, true)
	version := s.snapshot().GetRulesVersion()
	if got := detailOf[*aliquotv1.RulesVersionConflict](t, err, connect.CodeFailedPrecondition); got.GetExpected() != version-1 || got.GetInForce() != version {
		t.Errorf("the rules changed to version %d meanwhile: %v in %v", version, got, err)
	}
}

// A restore of the entries alone has restored nothing before them.
func TestARestoreOfEntriesAloneThatFails(t *testing.T) {
	s, _ := snapshotTest(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.restore(over, s.snapshot(), "bob", "")
	if err = toRPC(err); connect.CodeOf(err) != connect.CodeCanceled || strings.Contains(err.Error(), "restored") || !strings.Contains(err.Error(), "nothing was changed, because") {
		t.Error(err)
	}
}

// A version without a text of its own, and one that is not taken back as it is, say what to do instead.
func TestVersionsThatAreNotBroughtBack(t *testing.T) {
	c, node := snapshotTest(t)
	apply := func(text string) {
		t.Helper()
		if _, err := node.ApplyRules(t.Context(), cluster.RulesChange{YAML: text, FileName: "r.yaml"}); err != nil {
			t.Fatal(err)
		}
	}
	const shut = "rules: [{id: shut, params: {limit: 0, window: 60}}]\n"
	apply(shut)
	version := func() (v uint64) { node.View(func(s *clusterstate.State) { v = s.Rules.Version }); return v }
	first := version()
	for _, name := range []string{"a", "b"} {
		block := rules.Entry{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: name}}
		if _, err := node.ChangeEntries(t.Context(), cluster.EntriesChange{Put: []rules.Entry{block}}); err != nil {
			t.Fatal(err)
		}
	}
	apply("rules: []\n")
	for v, says := range map[uint64]string{first + 1: "changed only entries", first + 9: "kept are"} {
		if _, err := c.rules.keptVersion(v); !errors.Is(err, clusterstate.ErrUnknownVersion) || !strings.Contains(err.Error(), says) {
			t.Errorf("version %d: %v, want %q", v, err, says)
		}
	}
	_, err := c.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: first})
	if want := fmt.Sprintf("`aliquot rules show --version %d`", first); err == nil || !strings.Contains(err.Error(), want) || version() != first+3 {
		t.Errorf("back to a rule that denies everything: %v, want %s", err, want)
	}
}
