package coordinator_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// putTier sets the value of a tier.
func (r *running) putTier(t *testing.T, tier, body string, header ...string) response {
	t.Helper()
	return r.sendTier(t, http.MethodPut, tier, body, header...)
}

// sendTier sends a request for the value of a tier, as curl -d does.
func (r *running) sendTier(t *testing.T, method, tier, body string, header ...string) response {
	t.Helper()
	return r.send(t, method, "/rules/tier/"+tier, body, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
}

func TestPutTier(t *testing.T) {
	t.Parallel()
	r := startCluster(t, 1)[0]
	if got := r.putTier(t, "free", `{"limit":500}`); got.status != http.StatusConflict || !strings.Contains(got.body, "apply a file first") {
		t.Errorf("before the first rules: %+v", got)
	}
	r.applyRules(t, tieredRules)
	got := r.putTier(t, "free", `{"limit":500,"capacity":500}`, "Aliquot-Author", "ci", "Aliquot-Comment", "more", "If-Match", `"1"`)
	const changed = `{"version":"2","warnings":[],"diff":"","tierRules":[{"ruleId":"r1",` +
		`"before":{"limit":"100","refillRate":1.666666666666,"window":"60s"},"after":{"limit":"500","refillRate":8.333333333333,"window":"60s"},"whyNot":""}],`
	if got.status != http.StatusOK || got.header.Get("ETag") != `"2"` || !strings.HasPrefix(strings.ReplaceAll(got.body, " ", ""), strings.ReplaceAll(changed, " ", "")) {
		t.Fatalf("%+v", got)
	}
	if yaml := r.yaml(t); yaml != tieredRules {
		t.Errorf("the file has changed:\n%s", yaml)
	}
	if v, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{}); err != nil || v.GetEntries()[0].GetAuthor() != "ci" || v.GetEntries()[0].GetReason() != "more" {
		t.Errorf("%v, %v", v, err)
	}
	for _, c := range []struct {
		tier, body string
		header     []string
		status     int
		says       string
	}{
		{"free", `{"limit":5,"window":"90s"}`, nil, 200, `"version":"3"`},
		{"free", `{"capacity":5,"refill_rate":0.5}`, []string{"If-Match", "*", "Content-Type", "application/json"}, 200, `"version":"4"`},
		{"free", `{"capacity":5,"refill_rate":0.5}`, []string{"Content-Type", ""}, 200, `"version":"4"`}, // it is so already
		{"free", `{"limit":5,"LIMIT":500}`, nil, 400, `\"LIMIT\" is there twice`},
		{"gold", `{"limit":5}`, nil, 404, `no rule names the tier \"gold\", and the file assigns no request to it; known here: free`},
		{"free", `{"limit":5,"refill_rate":1}`, nil, 400, "limit and refill_rate both state a rate; state one of them"},
		{"free", `{"window":5}`, nil, 400, "window alone states no limit"},
		{"free", `limit=5`, nil, 400, `send JSON such as {\"limit\": 500, \"capacity\": 500}`},
		{"free", `{"limit":1}`, []string{"If-Match", `"1"`}, 412, "4 is in force"},
		{"free", `{"limit":1}`, []string{"If-Match", `W/"4"`}, 400, "ETag"},
		{"free", `{"limit":1}`, []string{"If-Match", `4`}, 400, "ETag"},
		{"free", `{"limit":1}`, []string{"If-Match", `"4", "5"`}, 400, "ETag"},
		{"free", `{"limit":1}`, []string{"Aliquot-Author", strings.Repeat("a", 300)}, 400, "at most 256"},
		{"free", `{"limit":1}`, []string{"Aliquot-Author", "\xff"}, 400, "printable"},
		{"free", `{"limit":1}`, []string{"Aliquot-Comment", "a\tb"}, 400, "printable"},
		{"a%ffb", `{"limit":1}`, nil, 400, "tier"},
		{"free", ``, nil, 400, "EOF"},
		{"free", `{`, nil, 400, "unexpected EOF"},
		{"free", `null`, nil, 400, "state limit, capacity or refill_rate"},
		{"free", `{}`, nil, 400, "state limit, capacity or refill_rate"},
		{"free", `[]`, nil, 400, "it must be a JSON object, and is a JSON array"},
		{"free", `{"limt":1}`, nil, 400, "limt"},
		{"free", `{"limit":1}{}`, nil, 400, "something follows"},
		{"free", `{"limit":0}`, nil, 400, "limit is 0"},
		{"free", `{"limit":-1}`, nil, 400, "limit is -1"},
		{"free", `{"limit":1.5}`, nil, 400, "the body: limit must be a whole number from 1 to 1000000000, without quotes; send JSON"},
		{"free", `{"limit":"1"}`, nil, 400, "limit must be a whole number"},
		{"free", `{"limit":99999999999999999999}`, nil, 400, "limit must be a whole number"},
		{"free", `{"limit":9223372036854775807}`, nil, 400, "above the largest"},
		{"free", `{"capacity":1,"refill_rate":0}`, nil, 400, "refill_rate is 0"},
		{"free", `{"capacity":1,"refill_rate":1e400}`, nil, 400, "refill_rate must be a number of requests a second"},
		{"free", `{"capacity":1,"refill_rate":1e300}`, nil, 400, "refill_rate"},
		{"free", `{"limit":1,"window":0}`, nil, 400, "window is 0s"},
		{"free", `{"limit":1,"window":-1}`, nil, 400, "write seconds"},
		{"free", `{"limit":1,"window":1e300}`, nil, 400, "write seconds"},
		{"free", `{"limit":1,"window":"soon"}`, nil, 400, "soon"},
		{"free", `{"limit":1,"window":[]}`, nil, 400, "write seconds"},
		{"a%0Ab", `{"limit":1,"window":1}`, nil, 404, "tier"},
		{strings.Repeat("a", 300), `{"limit":1,"window":1}`, nil, 404, "tier"},
		{"free", `{"limit":` + strings.Repeat(" ", 20_000) + `1}`, nil, 413, "too large"},
		{"", `{"limit":1}`, nil, 404, ""},
	} {
		got := r.putTier(t, c.tier, c.body, c.header...)
		if got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%.20s %.60s %.40s: %d %.300s\nwant %d with %q", c.tier, c.body, c.header, got.status, got.body, c.status, c.says)
		}
		if c.tier != "" && c.status >= 400 {
			isProblem(t, got)
		}
	}
	if v := status(t, r).GetRulesVersion(); v != 4 {
		t.Errorf("version %d, want 4: what is refused changes nothing", v)
	}
	if got := r.sendTier(t, http.MethodDelete, "free", "", "If-Match", `"4"`); got.status != http.StatusOK || !strings.Contains(got.body, `"version":"5"`) || !strings.Contains(got.body, `"limit":"100"`) {
		t.Errorf("%+v", got)
	}
	if got := r.sendTier(t, http.MethodDelete, "free", ""); got.status != http.StatusNotFound || !strings.Contains(got.body, "has no value above the file") {
		t.Errorf("%+v", got)
	}
}

func isProblem(t *testing.T, got response) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	err := json.Unmarshal([]byte(got.body), &p)
	if err != nil || got.header.Get("Content-Type") != "application/problem+json" || p.Status != got.status || p.Title == "" || p.Detail == "" || p.Type != "about:blank" {
		t.Errorf("not a problem: %+v (%v)", got, err)
	}
}
