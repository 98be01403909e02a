package httpanswer

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// at is half a second after a whole one, so that rounding shows.
var at = time.Unix(1_800_000_000, 500_000_000)

func allowed() *aliquotv1.CheckResponse {
	return &aliquotv1.CheckResponse{
		Allowed: true, RuleId: "orders-pro", Limit: 100, Remaining: 99, Mode: "store",
		ResetAfter: durationpb.New(600 * time.Millisecond), RetryAfter: durationpb.New(0),
		Limits: []*aliquotv1.LimitDecision{{RuleId: "orders-pro", Allowed: true, Window: durationpb.New(time.Minute)}},
	}
}

func denied() *aliquotv1.CheckResponse {
	return &aliquotv1.CheckResponse{
		RuleId: "orders-pro", Limit: 100, Mode: "store", DecisionId: "us-1-2",
		ResetAfter: durationpb.New(59*time.Second + time.Nanosecond), RetryAfter: durationpb.New(2*time.Second + time.Nanosecond),
		Limits: []*aliquotv1.LimitDecision{
			{RuleId: "everyone", Window: durationpb.New(time.Second)},
			{RuleId: "watching", Shadow: true},
			{RuleId: "holds", Allowed: true},
			{RuleId: "orders-pro", Window: durationpb.New(time.Minute)},
		},
	}
}

// change is a decision with something else about it.
func change(d *aliquotv1.CheckResponse, f func(*aliquotv1.CheckResponse)) *aliquotv1.CheckResponse {
	f(d)
	return d
}

func problemOf(d *aliquotv1.CheckResponse, problem string) *aliquotv1.CheckResponse {
	return change(d, func(d *aliquotv1.CheckResponse) { d.Problem = problem })
}

func mode(d *aliquotv1.CheckResponse, mode string) *aliquotv1.CheckResponse {
	return change(d, func(d *aliquotv1.CheckResponse) { d.Mode = mode })
}

// fields are an answer's headers in alphabetical order, without the content type.
func fields(a Answer) string {
	var lines []string
	for _, f := range a.Fields {
		if f.Name != "Content-Type" {
			lines = append(lines, f.Name+": "+f.Value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      *aliquotv1.CheckResponse
		o      Options
		status int
		want   []string
	}{
		{"allowed", allowed(), Options{}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`, `RateLimit: "orders-pro";r=99;t=1`,
			"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 99", "X-RateLimit-Reset: 1800000002"}},
		{"legacy", allowed(), Options{Headers: Legacy}, 200, []string{
			"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 99", "X-RateLimit-Reset: 1800000002"}},
		{"ietf", allowed(), Options{Headers: IETF}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`, `RateLimit: "orders-pro";r=99;t=1`}},
		{"none", allowed(), Options{Headers: None}, 200, nil},
		{"denied", denied(), Options{}, 429, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`, `RateLimit: "orders-pro";r=0;t=3`, "Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded",
			"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1800000060"}},
		{"denied with another status and no headers", denied(), Options{Headers: None, DenyStatus: 403}, 403, []string{"Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded"}},
		{"denied, and a time that is no time", change(denied(), func(d *aliquotv1.CheckResponse) { d.RetryAfter = nil }), Options{Headers: None}, 429,
			[]string{"Retry-After: 1", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded"}},
		{"a wait beyond all durations", change(denied(), func(d *aliquotv1.CheckResponse) { d.RetryAfter = durationpb.New(math.MaxInt64) }), Options{Headers: None}, 429,
			[]string{"Retry-After: 9223372036", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded"}},
		{"never", change(denied(), func(d *aliquotv1.CheckResponse) { d.Never, d.RetryAfter, d.ResetAfter = true, nil, nil }), Options{}, 429, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`, "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded",
			"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1800000001"}},
		{"emergency", mode(allowed(), "emergency"), Options{}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`,
			"X-RateLimit-Limit: 100", "X-RateLimit-Policy: degraded", "X-RateLimit-Remaining: -1", "X-RateLimit-Reset: 1800000002"}},
		{"fail_open, ietf", mode(allowed(), "fail_open"), Options{Headers: IETF}, 200, []string{`RateLimit-Policy: "orders-pro";q=100;w=60`}},
		{"fail_closed", mode(denied(), "fail_closed"), Options{Headers: Legacy}, 503, []string{"Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: temporary-reduced-capacity",
			"X-RateLimit-Limit: 100", "X-RateLimit-Policy: degraded", "X-RateLimit-Remaining: -1", "X-RateLimit-Reset: 1800000060"}},
		{"no rules yet", &aliquotv1.CheckResponse{Mode: "no_rules_yet", RetryAfter: durationpb.New(time.Second)}, Options{}, 503,
			[]string{"Retry-After: 1", "X-RateLimit-Policy: degraded", "X-RateLimit-Problem: temporary-reduced-capacity", "X-RateLimit-Remaining: -1"}},
		{"no rules yet, and another status", &aliquotv1.CheckResponse{Mode: "no_rules_yet"}, Options{Headers: None, DenyStatus: 403}, 403,
			[]string{"Retry-After: 1", "X-RateLimit-Problem: temporary-reduced-capacity"}},
		{"an emergency limit that is used up by what is known", mode(denied(), "emergency"), Options{Headers: None}, 429,
			[]string{"Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: quota-exceeded"}},
		{"an emergency limit of which nothing is known", problemOf(mode(denied(), "emergency"), ReducedCapacity), Options{Headers: None}, 503,
			[]string{"Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: temporary-reduced-capacity"}},
		{"a cool-down", problemOf(denied(), AbnormalUsage), Options{Headers: IETF}, 429, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60`, `RateLimit: "orders-pro";r=0;t=3`, "Retry-After: 3", "X-Decision-Id: us-1-2", "X-RateLimit-Problem: abnormal-usage-detected"}},
		{"no rules yet, and all pass", &aliquotv1.CheckResponse{Allowed: true, Mode: "no_rules_yet"}, Options{}, 200,
			[]string{"X-RateLimit-Policy: degraded", "X-RateLimit-Remaining: -1"}},
		{"no rule", &aliquotv1.CheckResponse{Allowed: true, Mode: "no_rule"}, Options{}, 200, nil},
		{"on the allow list", &aliquotv1.CheckResponse{Allowed: true, Mode: "allow_list"}, Options{}, 200, nil},
		{"on the block list", &aliquotv1.CheckResponse{Mode: "block_list", Never: true, DecisionId: "us-1-2"}, Options{}, 429, []string{"X-Decision-Id: us-1-2", "X-RateLimit-Problem: abnormal-usage-detected"}},
		{"only a rule that watches", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Limits[0].Shadow = true }), Options{}, 200, nil},
		{"no more known of the limit", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Limits = nil }), Options{Headers: IETF}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100`, `RateLimit: "orders-pro";r=99;t=1`}},
		{"a queue", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Delay = durationpb.New(1500*time.Millisecond + 1) }), Options{Headers: None}, 200,
			[]string{"X-RateLimit-Delay: 1.501"}},
		{"slots", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Limits[0].Unit = "concurrency" }), Options{Headers: IETF}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60;qu="concurrent-requests"`, `RateLimit: "orders-pro";r=99;t=1`}},
		{"bytes", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Limits[0].Unit = "content_bytes" }), Options{Headers: IETF}, 200, []string{
			`RateLimit-Policy: "orders-pro";q=100;w=60;qu="content-bytes"`, `RateLimit: "orders-pro";r=99;t=1`}},
		{"tokens, which no registered unit is", change(allowed(), func(d *aliquotv1.CheckResponse) { d.Limits[0].Unit = "tokens_in" }), Options{}, 200, []string{
			"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 99", "X-RateLimit-Reset: 1800000002"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			slices.Sort(c.want)
			a := Of(c.d, at, c.o)
			if got := fields(a); got != strings.Join(c.want, "\n") || a.Status != c.status {
				t.Errorf("%d\n%s\nwant %d\n%s", a.Status, got, c.status, strings.Join(c.want, "\n"))
			}
			if (len(a.Body) == 0) != c.d.GetAllowed() {
				t.Errorf("body %q", a.Body)
			}
		})
	}
}

func TestBodyOfADenial(t *testing.T) {
	const types = `"type":"https://iana.org/assignments/http-problem-types#`
	const exceeded = types + `quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded",`
	const reduced = types + `temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints",`
	const abnormal = types + `abnormal-usage-detected","title":"Request not satisfied due to detection of abnormal request pattern",`
	const after3 = `"details":{"limit":100,"window_seconds":60,"retry_after_seconds":3,"reset_at":1800000060}}}`
	const both = `"instance":"us-1-2","violated-policies":["everyone","orders-pro"],`
	const degraded = `"instance":"us-1-2","degraded":true,"violated-policies":["everyone","orders-pro"],`
	for _, c := range []struct {
		name, start, sentence, rest string
		d                           *aliquotv1.CheckResponse
	}{
		{"nothing left", exceeded + `"status":429,`, "The limit orders-pro (100 in 60 s) admits no more for now; retry after 3 s.",
			both + `"error":{"code":"RATE_LIMIT_EXCEEDED",` + after3, denied()},
		{"no slot left", exceeded + `"status":429,`, "The limit orders-pro (100 at a time) admits no more for now; retry after 3 s.",
			both + `"error":{"code":"RATE_LIMIT_EXCEEDED",` + after3, change(denied(), func(d *aliquotv1.CheckResponse) { d.Limits[3].Unit = "concurrency" })},
		{"something left, and not enough", exceeded + `"status":429,`, "The limit orders-pro (100 in 60 s) has 9 left, which is less than the request asks for; retry after 3 s.",
			both + `"error":{"code":"RATE_LIMIT_EXCEEDED",` + after3, change(denied(), func(d *aliquotv1.CheckResponse) { d.Remaining = 9 })},
		{"never", exceeded + `"status":429,`, "The request asks for more than the limit <a> (5) ever has; no waiting helps.",
			`"violated-policies":["<a>"],"error":{"code":"RATE_LIMIT_EXCEEDED","details":{"limit":5,"window_seconds":0.25}}}`,
			&aliquotv1.CheckResponse{RuleId: "<a>", Limit: 5, Never: true, Limits: []*aliquotv1.LimitDecision{{RuleId: "<a>", Never: true, Window: durationpb.New(250 * time.Millisecond)}}}},
		{"a limit of nothing", exceeded + `"status":429,`, "The limit shut admits nothing; no waiting helps.",
			`"violated-policies":["shut"],"error":{"code":"RATE_LIMIT_EXCEEDED","details":{"limit":0}}}`, &aliquotv1.CheckResponse{RuleId: "shut", Never: true}},
		{"no rules yet", reduced + `"status":503,`, "This service does not know its limits yet; retry after 1 s.",
			`"instance":"us-1-2","degraded":true,"error":{"code":"TEMPORARY_REDUCED_CAPACITY","details":{"retry_after_seconds":1}}}`,
			&aliquotv1.CheckResponse{Mode: "no_rules_yet", DecisionId: "us-1-2", RetryAfter: durationpb.New(time.Second)}},
		{"a rule that fails closed", reduced + `"status":503,`, "This service cannot tell now what is left of the limit orders-pro (100 in 60 s); retry after 3 s.",
			degraded + `"error":{"code":"TEMPORARY_REDUCED_CAPACITY","details":{"limit":100,"window_seconds":60,"retry_after_seconds":3}}}`, mode(denied(), "fail_closed")},
		{"an emergency limit of which nothing is known", reduced + `"status":503,`, "This service cannot tell now what is left of the limit orders-pro (100 in 60 s); retry after 3 s.",
			degraded + `"error":{"code":"TEMPORARY_REDUCED_CAPACITY","details":{"limit":100,"window_seconds":60,"retry_after_seconds":3}}}`,
			problemOf(mode(denied(), "emergency"), ReducedCapacity)},
		{"an emergency limit that is used up by what is known", exceeded + `"status":429,`, "The limit orders-pro (100 in 60 s) admits less than usual for now, and not this request; retry after 3 s.",
			degraded + `"error":{"code":"RATE_LIMIT_EXCEEDED",` + after3, mode(denied(), "emergency")},
		{"blocked", abnormal + `"status":429,`, "This client is blocked; no waiting helps.",
			`"violated-policies":[],"error":{"code":"ABNORMAL_USAGE_DETECTED","details":{}}}`, &aliquotv1.CheckResponse{Mode: "block_list", Never: true}},
		{"blocked for a while", abnormal + `"status":429,`, "This client is blocked for a while; retry after 3 s.",
			both + `"error":{"code":"ABNORMAL_USAGE_DETECTED",` + after3, mode(denied(), "block_list")},
		{"held back", abnormal + `"status":429,`, "This client did not wait as told, and is held back; retry after 3 s.",
			both + `"error":{"code":"ABNORMAL_USAGE_DETECTED",` + after3, problemOf(mode(denied(), "local"), AbnormalUsage)},
		{"a denial that names no rule", exceeded + `"status":429,`, "Too many requests; retry after 1 s.",
			`"violated-policies":[],"error":{"code":"RATE_LIMIT_EXCEEDED","details":{"retry_after_seconds":1,"reset_at":1800000001}}}`, &aliquotv1.CheckResponse{}},
	} {
		a := Of(c.d, at, Options{})
		want := "{" + c.start + `"detail":"` + c.sentence + `",` + strings.Replace(c.rest, `"details"`, `"message":"`+c.sentence+`","details"`, 1)
		if got := strings.TrimSpace(string(a.Body)); got != want || !json.Valid(a.Body) {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, got, want)
		}
	}
}

// TestRetryAfterIsNotBeforeReset: clients may go by either; on a denial both are the wait.
func TestRetryAfterIsNotBeforeReset(t *testing.T) {
	for _, wait := range []time.Duration{0, 1, time.Second, time.Second + 1, 36 * time.Second} {
		for _, reset := range []time.Duration{0, time.Second, time.Hour} {
			a := Of(change(denied(), func(d *aliquotv1.CheckResponse) {
				d.RetryAfter, d.ResetAfter = durationpb.New(wait), durationpb.New(reset)
			}), at, Options{Headers: IETF})
			h := http.Header{}
			a.AddTo(h)
			if _, until, _ := strings.Cut(h.Get("RateLimit"), ";t="); until != h.Get("Retry-After") || until == "" {
				t.Errorf("wait %v, whole again after %v: %v", wait, reset, h)
			}
		}
	}
}

// TestNamesAreCanonical: what runs in the same process finds a header as it would over a connection.
func TestNamesAreCanonical(t *testing.T) {
	h := http.Header{"X-Ratelimit-Limit": {"an older one"}}
	for _, d := range []*aliquotv1.CheckResponse{
		denied(), mode(denied(), "emergency"), change(allowed(), func(d *aliquotv1.CheckResponse) { d.Delay = durationpb.New(time.Second) }),
	} {
		a := Of(d, at, Options{})
		a.AddTo(h)
		for _, f := range a.Fields {
			if h.Get(f.Name) != f.Value || len(h.Values(f.Name)) != 1 {
				t.Errorf("%s is %q, want %q", f.Name, h.Values(f.Name), f.Value)
			}
		}
	}
}

func TestRuleIdsAreStringsOfStructuredFields(t *testing.T) {
	for id, want := range map[string]string{
		`orders-pro`:           `"orders-pro"`,
		`a "b" \c`:             `"a \"b\" \\c"`,
		"é":                    `"%C3%A9"`,
		"a\r\nSet-Cookie: b=c": `"a%0D%0ASet-Cookie: b=c"`,
		"\x00\x7f~":            `"%00%7F~"`,
	} {
		var s headerBuffer
		if s.quote(id); s.text.String() != want {
			t.Errorf("%q: %s, want %s", id, s.text.String(), want)
		}
	}
}

func TestServed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "an older one")
		Of(denied(), at, Options{DenyStatus: 403}).ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		request, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 403 || resp.Header.Get("Content-Type") != "application/problem+json" || resp.ContentLength < 100 ||
			!slices.Equal(resp.Header.Values("X-RateLimit-Limit"), []string{"100"}) {
			t.Errorf("%s: %s %v", method, resp.Status, resp.Header)
		}
	}
}

func TestRefused(t *testing.T) {
	a := Refused(400, "cost is 0")
	want := `{"type":"about:blank","title":"Bad Request","status":400,"detail":"cost is 0"}`
	if got := strings.TrimSpace(string(a.Body)); got != want || a.Status != 400 {
		t.Errorf("%d %s", a.Status, got)
	}
	// net/http has no text for this status, and RFC 9457 wants a title in every problem.
	if a := Refused(StatusClientGone, "left"); !strings.Contains(string(a.Body), `"title":"Client Closed Request"`) {
		t.Errorf("%s", a.Body)
	}
}

func TestParseHeaders(t *testing.T) {
	for text, want := range map[string]Headers{"both": Both, "legacy": Legacy, "ietf": IETF, "none": None} {
		if got, err := ParseHeaders(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseHeaders("all"); err == nil {
		t.Error("all was accepted")
	}
}

// TestNeverWithoutARule: a client's own limit has no name, and no wait is told where none
// helps.
func TestNeverWithoutARule(t *testing.T) {
	a := Of(&aliquotv1.CheckResponse{Mode: "emergency", Never: true, Limit: 3}, time.Unix(0, 0), Options{})
	if body := string(a.Body); strings.Contains(body, "retry") || !strings.Contains(body, "no waiting helps") {
		t.Error(body)
	}
}
