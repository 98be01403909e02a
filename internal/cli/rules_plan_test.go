package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// planRules ends with the rules as they were. It comes before other requests: a request
// that only one version lets pass leaves that one fewer tokens for the next, so with much
// traffic near the limits every change denies and allows some.
func planRules(t *testing.T, coordinator string, regions ...string) {
	for _, region := range regions {
		for range 40 {
			command(t, "", "check", "api_key=planned", "--addr", region)
		}
	}
	text := command(t, "", "rules", "show", "--addr", coordinator).out
	plan := func(text string, code int, args ...string) *aliquotv1.PlanRulesResponse {
		t.Helper()
		got := command(t, text, append([]string{"rules", "plan", "-", "--addr", coordinator, "-o", "json"}, args...)...)
		got.want(t, code)
		var out aliquotv1.PlanRulesResponse
		if err := protojson.Unmarshal([]byte(got.out), &out); err != nil {
			t.Fatalf("%v in %s%s", err, got.out, got.err)
		}
		if len(out.GetRegions()) != 3 {
			t.Fatal(got.out)
		}
		for _, r := range out.GetRegions() {
			if r.GetError() != "" || r.GetRequests() < 40 || r.GetOneIn() != 1 || r.GetKeys() < 1 {
				t.Errorf("%v", r)
			}
		}
		return &out
	}
	same := plan(text, exitOK, "--fail-if-denied")
	if same.GetDiff() != "" || len(same.GetRules()) > 0 || same.GetNewlyDeniedRequests() > 0 || same.GetNewlyAllowedRequests() > 0 {
		t.Errorf("nothing would change: %v", same)
	}
	hash := keyHash(t, coordinator, "planned")
	less := strings.Replace(text, "capacity: 300, refill_rate: 100", "capacity: 30, refill_rate: 0.001", 1)
	denied := plan(less, exitDenied, "--fail-if-denied")
	if len(denied.GetRules()) != 1 || denied.GetNewlyAllowedRequests() > 0 || denied.GetNewlyDeniedRequests() < 3*10 {
		t.Fatalf("a limit that would deny: %v", denied)
	}
	if r := denied.GetRules()[0]; r.GetRuleId() != "per-key" || r.GetNewlyDeniedKeys() < 3 || !strings.Contains(strings.Join(r.GetDeniedKeyHashes(), " "), hash) {
		t.Errorf("who would be denied: %v; the key is %s", r, hash)
	}
	listed := strings.Replace(text, "blacklist: [", "blacklist: [planned, ", 1)
	if got := plan(listed, exitOK); got.GetNewlyDeniedRequests() != 120 || len(got.GetRules()) != 1 {
		t.Errorf("a key on the block list: %v", got)
	}
	command(t, less, "rules", "plan", "-", "--addr", coordinator).want(t, exitOK,
		"-    params: {capacity: 300", "per-key", "us-east", "all keys", hash, "would be newly denied")
	command(t, text, "rules", "plan", "-", "--addr", coordinator).want(t, exitOK, "the text is that of version", "nothing would change for the")
	command(t, strings.Replace(text, "capacity: 300", "capcity: 300", 1), "rules", "plan", "-", "--addr", coordinator).
		want(t, exitError, "nothing changed", "<stdin>:", "capcity")
	command(t, text, "rules", "plan", "-", "--wait", "31s", "--addr", coordinator).want(t, exitUsage, "at most 30s")
	more := strings.Replace(text, "capacity: 300, refill_rate: 100", "capacity: 3000, refill_rate: 1000", 1)
	command(t, "", "check", "api_key=big", "--cost", "300", "--addr", regions[0])
	command(t, "", "check", "api_key=big", "--cost", "250", "--addr", regions[0]).want(t, exitDenied)
	if got := plan(more, exitOK, "--fail-if-denied"); got.GetNewlyAllowedRequests() < 1 || got.GetNewlyAllowedKeys() < 1 || got.GetNewlyDeniedRequests() > 0 {
		t.Errorf("a limit that allows more: %v", got)
	}
	command(t, "", "rules", "show", "--addr", coordinator).want(t, exitOK, text)
}

// keyHash is the hash of an API key under per-key.
func keyHash(t *testing.T, coordinator, apiKey string) string {
	t.Helper()
	got := command(t, "", "budget", "get", "per-key", "api_key="+apiKey, "--addr", coordinator, "-o", "json")
	var out struct{ Budget struct{ KeyHash string } }
	if err := json.Unmarshal([]byte(got.out), &out); err != nil || len(out.Budget.KeyHash) != 22 {
		t.Fatalf("%v in %s%s", err, got.out, got.err)
	}
	return out.Budget.KeyHash
}
