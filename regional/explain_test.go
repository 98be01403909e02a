package regional

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/modes"
)

func explanationOf(t *testing.T, d *Daemon, in *aliquotv1.ExplainRequest) (*aliquotv1.ExplainResponse, error) {
	t.Helper()
	return aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr()).Explain(t.Context(), in)
}

func explainRequest(t *testing.T, d *Daemon, in *aliquotv1.CheckRequest) *aliquotv1.ExplainResponse {
	t.Helper()
	out, err := explanationOf(t, d, &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_Request{Request: in}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const explainedRules = `
defaults: {enforcement: independent}
rules:
  - id: r0
    params: {capacity: 10, refill_rate: 0.001}
    override: {"vip_*": {capacity: 20, refill_rate: 0.001}}
  - id: r1
    match: {attributes: {model: large}}
    algorithm: sliding_window_log
    params: {limit: 3, window: 3600}
  - id: r2
    match: {attributes: {model: large}}
    algorithm: concurrency
    key: [api_key, model]
    params: {limit: 2, window: 1800} # not as long as r1's: of two equal waits either may be the longer one
  - id: r3
    match: {attributes: {model: large}}
    unit: tokens_in
    algorithm: fixed_window
    params: {limit: 100, window: 3600}
  - id: r4
    shadow: true
    params: {capacity: 1, refill_rate: 0.001}
blacklist: [{pattern: "bad_*", reason: "leaked", by: "ops"}]
whitelist: [friend]
`

// TestExplainSaysWhatCheckSays, limit by limit, and charges nothing: any number of
// explanations says the same, and the check after them too.
func TestExplainSaysWhatCheckSays(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, explainedRules).address()))
		explainedAsDecided(t, d)
	})
}

// explainedAsDecided compares what is explained with what is decided.
func explainedAsDecided(t *testing.T, d *Daemon) {
	t.Helper()
	const k, vip, bad = "k", "vip_1", "bad_1"
	requests := []*aliquotv1.CheckRequest{
		{Attributes: map[string]string{"api_key": k}},
		{Attributes: map[string]string{"api_key": vip}, Cost: proto.Int64(12)},
		{Attributes: map[string]string{"api_key": k, "model": "large"}, Costs: map[string]int64{"tokens_in": 60}},
		{Attributes: map[string]string{"api_key": k, "model": "large"}, Costs: map[string]int64{"tokens_in": 60}},
		{Attributes: map[string]string{"api_key": k, "model": "large"}},
		{Attributes: map[string]string{"api_key": k, "model": "large"}},
		{Attributes: map[string]string{"api_key": k, "model": "large"}, Cost: proto.Int64(2)},
		{Attributes: map[string]string{"api_key": k}, Cost: proto.Int64(11)},
		{Attributes: map[string]string{"api_key": k}, Cost: proto.Int64(8)},
		{Attributes: map[string]string{"api_key": bad}},
		{Attributes: map[string]string{"api_key": "friend"}},
	}
	denied := 0
	for i, in := range requests {
		explainRequest(t, d, in)
		would := explainRequest(t, d, in)
		is := askFor(t, d, in)
		if would.GetDecision().GetDecisionId() != "" {
			t.Errorf("request %d: an explanation has no id", i)
		}
		if got, want := decided1(would.GetDecision()), decided1(is); got != want {
			t.Errorf("request %d:\n explained %s\n decided   %s", i, got, want)
		}
		if is.GetAllowed() {
			continue
		}
		denied++
		was, err := explanationOf(t, d, &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: is.GetDecisionId()}})
		if err != nil || !proto.Equal(was.GetDecision(), is) || len(was.GetRules()) != len(would.GetRules()) ||
			was.GetLease().GetPhase() != "live" || was.GetRulesVersion() != 1 || was.GetRegion() != "us" {
			t.Fatalf("request %d: %v, %v\nit was %v", i, err, was, is)
		}
		for j, r := range was.GetRules() {
			if now := would.GetRules()[j]; r.GetRetryBasis() != now.GetRetryBasis() || r.GetKeyHash() != now.GetKeyHash() || r.GetWhyNot() != now.GetWhyNot() {
				t.Errorf("request %d: was %v, would be %v", i, r, now)
			}
		}
	}
	if denied != 6 {
		t.Errorf("%d denials", denied)
	}
}

// decided1 is a decision in one line, without what changes while time goes by.
func decided1(a *aliquotv1.CheckResponse) string {
	text := fmt.Sprint(a.GetAllowed(), a.GetRuleId(), a.GetMode(), a.GetRemaining(), a.GetNever(), a.GetReason())
	for _, l := range a.GetLimits() {
		retry := l.GetRetryAfter().AsDuration().Round(10 * time.Second)
		text += fmt.Sprint("; ", l.GetRuleId(), l.GetAllowed(), l.GetRemaining(), l.GetNever(), l.GetShadow(), retry)
	}
	return text
}

func TestExplainTellsWhyAndWhyNot(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, explainedRules).address()))
		rule := func(e *aliquotv1.ExplainResponse, i int) *aliquotv1.RuleExplanation { return e.GetRules()[i] }

		e := explainRequest(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "vip_1", "model": "large"}})
		if r := rule(e, 0); !r.GetMatched() || r.GetOverride() != "vip_*" || r.GetCapacity() != 20 || r.GetTokens() != 20 || r.GetRate() != 0.001 ||
			r.GetRateShare() != 1 || r.GetHot() || len(r.GetKeyHash()) != 22 || strings.Join(r.GetKey(), ",") != "api_key" {
			t.Errorf("%v", r)
		}
		if r := rule(e, 3); r.GetMatched() || !strings.Contains(r.GetWhyNot(), "unit tokens_in") || r.GetDecision() != nil {
			t.Errorf("%v", r)
		}
		if r := rule(e, 4); !r.GetMatched() || !r.GetDecision().GetShadow() {
			t.Errorf("%v", r)
		}
		e = explainRequest(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
		if r := rule(e, 1); r.GetMatched() || !strings.Contains(r.GetWhyNot(), "model") || strings.Contains(e.String(), `"k"`) {
			t.Errorf("%v", e)
		}
		e = explainRequest(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "bad_1"}})
		if e.GetList() != "blacklist" || e.GetListEntry() != "bad_*, by ops: leaked" || rule(e, 0).GetMatched() || !strings.Contains(rule(e, 0).GetWhyNot(), "blacklist") {
			t.Errorf("%v", e)
		}
		e = explainRequest(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}, Cost: proto.Int64(11)})
		if r := rule(e, 0); !r.GetDecision().GetNever() || !strings.Contains(r.GetRetryBasis(), "no waiting helps") || rule(e, 4).GetDecision() == nil {
			t.Errorf("%v", e)
		}
		for _, in := range []*aliquotv1.ExplainRequest{
			{}, {What: &aliquotv1.ExplainRequest_DecisionId{}},
			{What: &aliquotv1.ExplainRequest_Request{Request: &aliquotv1.CheckRequest{Cost: proto.Int64(-1)}}},
		} {
			if _, err := explanationOf(t, d, in); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%v: %v", in, err)
			}
		}
		denied := check(t, d, "bad_1").DecisionID
		prefix := denied[:strings.LastIndex(denied, "-")+1]
		for _, id := range []string{"us-1-1", prefix + "zz", prefix, "x"} {
			if _, err := explanationOf(t, d, &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: id}}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// TestExplainOfAHotKey: the share in force, its generation, and that nobody could tell
// what the others hold; nothing is asked for by looking.
func TestExplainOfAHotKey(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: [{id: r0, params: {capacity: 100, refill_rate: 0.001}, enforcement: strict}]\n")
		d, _ := startLive(t, testConfig(l.address()))
		in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}, Cost: proto.Int64(60)}
		for range 20 { // would make the key hot if they counted
			if e := explainRequest(t, d, in); e.GetDecision().GetAllowed() || e.GetRules()[0].GetHot() || e.GetRules()[0].GetBurstShare() != 0.5 {
				t.Fatalf("%v", e)
			}
		}
		if info := d.auth.Info(); info.Candidates != 0 {
			t.Errorf("%d keys were noticed", info.Candidates)
		}
		l.lend(keyOf(d, "k"), budget.Unit/4)
		eventually(t, "the share is told", func() bool {
			r := explainRequest(t, d, in).GetRules()[0]
			return r.GetHot() && r.GetBurstShare() == 0.25 && r.GetCapacity() == 25 && strings.HasPrefix(r.GetGeneration(), "1.") &&
				strings.Contains(r.GetRetryBasis(), "above the 25 that this region may hold") && strings.HasPrefix(r.GetRegionsError(), "no coordinator could tell")
		})
	})
}

// TestExplainWithoutTheStore goes by each rule's fallback, and charges that nothing
// either.
func TestExplainWithoutTheStore(t *testing.T) {
	server := startRedis(t)
	c := testConfig(newLeader(t, `
rules:
  - {id: r0, params: {capacity: 100, refill_rate: 100}, enforcement: independent}
  - {id: r1, params: {capacity: 10, refill_rate: 1}, enforcement: independent, on_redis_failure: closed}
`).address())
	c.Redis = server.url()
	d, _ := startLive(t, c)
	server.kill()
	eventually(t, "the store is missed", func() bool {
		e := explainRequest(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
		r0, r1 := e.GetRules()[0], e.GetRules()[1]
		return r0.GetDecision().GetMode() == modes.Emergency && r1.GetDecision().GetMode() == modes.FailClosed &&
			strings.Contains(r1.GetRetryBasis(), "fails closed") && r0.GetCapacity() > 89
	})
}
