package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"aliquot/cluster/raftlog"
	"aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// limited is a rules file with one limit.
func limited(capacity int) string {
	return fmt.Sprintf("# ours\nrules:\n  - id: r1\n    params: {capacity: %d, refill_rate: 10}\n", capacity)
}

// TestRuleHistory: every version is kept on every node with author, time, word and
// diff; a rollback brings an old text back as a new version; any node does it.
func TestRuleHistory(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	leader, followers := split(t, all)
	for i, r := range []*running{leader, followers[0], followers[1]} {
		res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{
			Yaml: limited(100 * (i + 1)), Author: "ann", Comment: fmt.Sprint("step ", i+1),
		})
		if err != nil || res.GetVersion() != uint64(i+1) {
			t.Fatalf("version %d: %v, %v", i+1, res, err)
		}
		want := ""
		if i > 0 {
			want = fmt.Sprintf("--- version %d\n+++ version %d\n@@ -1,4 +1,4 @@\n # ours\n rules:\n   - id: r1\n"+
				"-    params: {capacity: %d, refill_rate: 10}\n+    params: {capacity: %d, refill_rate: 10}\n", i, i+1, 100*i, 100*(i+1))
		}
		if res.GetDiff() != want {
			t.Errorf("version %d: diff\n%s\nwant\n%s", i+1, res.GetDiff(), want)
		}
	}
	last := followers[1]
	stale := uint64(2)
	_, err := last.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 1, ExpectedVersion: &stale})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a rollback against an old version: %v", err)
	}
	_, err = last.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 9})
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "kept are 1 to 3") {
		t.Errorf("a rollback to nowhere: %v", err)
	}
	res, err := last.rules.RollbackRules(t.Context(), &aliquotv1.RollbackRulesRequest{Version: 1, Author: "bob"})
	if err != nil || res.GetVersion() != 4 || !strings.Contains(res.GetDiff(), "+    params: {capacity: 100,") {
		t.Fatalf("rollback: %v, %v", res, err)
	}
	for _, r := range all {
		eventually(t, func() string {
			if v := status(t, r).GetRulesVersion(); v != 4 {
				return fmt.Sprintf("%s has version %d", r.cfg.NodeID, v)
			}
			return ""
		})
		testVersions(t, r)
	}
}

// testVersions looks at the history that TestRuleHistory made, on one node.
func testVersions(t *testing.T, r *running) {
	t.Helper()
	for version, capacity := range map[uint64]int{0: 100, 1: 100, 2: 200, 3: 300, 4: 100} {
		got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{Version: version})
		if err != nil || got.GetYaml() != limited(capacity) || got.GetAppliedUnixMs() == 0 {
			t.Errorf("%s: version %d: %v, %v", r.cfg.NodeID, version, got, err)
		}
	}
	if _, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{Version: 5}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("%s: version 5: %v", r.cfg.NodeID, err)
	}
	list := func(limit int32, before uint64) (out []string) {
		res, err := r.rules.ListRuleVersions(t.Context(), &aliquotv1.ListRuleVersionsRequest{Limit: limit, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range res.GetVersions() {
			out = append(out, fmt.Sprintf("%d %s %q %v %d", v.GetVersion(), v.GetAuthor(), v.GetComment(), v.GetInForce(), v.GetRollbackTo()))
			if v.GetAppliedUnixMs() == 0 || (v.GetDiff() == "") != (v.GetVersion() == 1) {
				t.Errorf("%s: %v", r.cfg.NodeID, v)
			}
		}
		return out
	}
	want := []string{`4 bob "back to version 1" true 1`, `3 ann "step 3" false 0`, `2 ann "step 2" false 0`, `1 ann "step 1" false 0`}
	for _, c := range []struct {
		limit  int32
		before uint64
		want   []string
	}{{0, 0, want}, {2, 0, want[:2]}, {2, 3, want[2:]}, {1, 4, want[1:2]}, {5, 1, nil}} {
		if got := list(c.limit, c.before); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %d before %d: %v, want %v", r.cfg.NodeID, c.limit, c.before, got, c.want)
		}
	}
	for _, limit := range []int32{-1, 1001} {
		if _, err := r.rules.ListRuleVersions(t.Context(), &aliquotv1.ListRuleVersionsRequest{Limit: limit}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// TestRuleHistoryOutlivesARestart: what is kept is on disk.
func TestRuleHistoryOutlivesARestart(t *testing.T) {
	t.Parallel()
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	r.applyRules(t, limited(200))
	r.stop(t)
	r = start(t, r.cfg)
	r.waitReady(t)
	got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{Version: 1})
	if err != nil || got.GetYaml() != limited(100) {
		t.Errorf("version 1: %v, %v", got, err)
	}
}

// TestBadRulesNeverReachTheLog: what is refused leaves the rules in force, is counted, and is no entry of the log.
func TestBadRulesNeverReachTheLog(t *testing.T) {
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	for _, yaml := range []string{"rules: 1", "rules: [{id: a, params: {capacity: 0, refill_rate: 1}}]", "\t", strings.Repeat("#", 4<<20+1)} {
		if _, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: yaml}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%.40q: %v", yaml, err)
		}
	}
	if got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{}); err != nil || got.GetVersion() != 1 || got.GetYaml() != limited(100) {
		t.Errorf("in force: %v, %v", got, err)
	}
	if _, body := r.get(t, "http://"+r.Ops+"/metrics"); !strings.Contains(body, "aliquot_rules_reload_failures_total 4") {
		t.Error("the refusals are not counted")
	}
	r.stop(t)
	if got := rulesInLog(t, r.cfg.DataDir); !slices.Equal(got, []string{limited(100)}) {
		t.Errorf("the log has these rules: %q", got)
	}
}

// rulesInLog are the texts of rules that a coordinator, which has ended, has in its log.
func rulesInLog(t *testing.T, dataDir string) (texts []string) {
	t.Helper()
	log, err := raftlog.Open(filepath.Join(dataDir, "wal"), 16<<20, hclog.NewNullLogger(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	first, last, err := log.Bounds()
	for i := first; i <= last && err == nil; i++ {
		var entry raft.Log
		var cmd *raftlogv1.Command
		if err = log.GetLog(i, &entry); err != nil || entry.Type != raft.LogCommand {
			continue
		}
		if cmd, err = state.DecodeCommand(entry.Data); cmd.GetApplyRules() != nil {
			texts = append(texts, cmd.GetApplyRules().GetYaml())
		}
	}
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestRulesAsJSON: GET /rules is the file, or JSON for a client that asks for it.
func TestRulesAsJSON(t *testing.T) {
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	for accept, media := range map[string]string{
		"": "application/yaml; charset=utf-8", "*/*": "application/yaml; charset=utf-8", "text/html, application/json;q=0.5": "application/json",
	} {
		got := r.send(t, http.MethodGet, "/rules", "", "Accept", accept)
		if got.header.Get("Content-Type") != media || got.header.Get("ETag") != `"1"` {
			t.Errorf("Accept %q: %v, %v", accept, got.header, got.body)
		}
		if media != "application/json" {
			continue
		}
		var inJSON struct{ Version, Yaml string }
		if err := json.Unmarshal([]byte(got.body), &inJSON); err != nil || inJSON.Version != "1" || inJSON.Yaml != limited(100) {
			t.Errorf("%s: %v", got.body, err)
		}
	}
}

// TestRulesOfAVersion: the query names a version that is kept, and says nothing else.
func TestRulesOfAVersion(t *testing.T) {
	t.Parallel()
	r := startCluster(t, 1)[0]
	r.applyRules(t, limited(100))
	r.applyRules(t, limited(200))
	for query, want := range map[string]struct {
		status int
		body   string
	}{
		"": {200, limited(200)}, "?version=1": {200, limited(100)}, "?version=2": {200, limited(200)}, "?version=3": {404, "3"},
		"?version=0": {400, "a number from 1"}, "?version=x": {400, "a number from 1"}, "?version=1&version=2": {400, "a number from 1"},
		"?v=1": {400, "the one parameter is version"}, "?version=1&x=": {400, "the one parameter is version"}, "?%zz": {400, "the query"},
	} {
		got := r.send(t, http.MethodGet, "/rules"+query, "")
		if got.status != want.status || !strings.Contains(got.body, want.body) {
			t.Errorf("%q: %d %s, want %v", query, got.status, got.body, want)
		}
	}
}
