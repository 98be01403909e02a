package regional

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aliquot/internal/httpanswer"
	"aliquot/regional/internal/storeguard"
)

const problemRules = `
defaults: {enforcement: independent, local_cache: false}
rules:
  - {id: r0, match: {attributes: {endpoint: /bucket}}, params: {capacity: 3, refill_rate: 0.001}}
  - {id: r1, match: {attributes: {endpoint: /window}}, algorithm: fixed_window, params: {limit: 3, window: 366d}}
  - {id: r2, match: {attributes: {endpoint: /closed}}, on_redis_failure: closed, params: {capacity: 3, refill_rate: 1}}
blacklist: ["sk_revoked_*"]
`

// problemBody is the body of a denial.
type problemBody struct {
	Type, Title, Detail string
	Status              int
	Degraded            bool
	Violated            []string `json:"violated-policies"`
	Error               struct{ Code, Message string }
}

func (r reply) problem(t *testing.T) (p problemBody) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v in %q", err, r.body)
	}
	return p
}

// TestProblemsOfDenials: the type of the problem, its status and its sentence say what is so, also while the
// store does not answer: then a wait ends when the store is tried the next time, not when the limit refills.
func TestProblemsOfDenials(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s := &faultyStore{}
		d, _ := startLive(t, testConfig(newLeader(t, problemRules).address()), func(d *Daemon) {
			s.Store, d.guard.Store = d.guard.Store, s
		})
		ask := func(path, key string, want int, problem, sentence string) reply {
			t.Helper()
			out := proxied(t, d, "GET", "/check", "X-API-Key: "+key, "X-Original-URI: "+path)
			if out.StatusCode != want || out.Header.Get("X-RateLimit-Problem") != problem {
				t.Errorf("%s of %s: %s %v %s, want %d %s", path, key, out.Status, out.Header, out.body, want, problem)
			}
			if want == 200 {
				return out
			}
			p := out.problem(t)
			if !strings.HasSuffix(p.Type, "#"+problem) || p.Status != want || !strings.Contains(p.Detail, sentence) || p.Error.Message != p.Detail {
				t.Errorf("%s of %s: %s, want %s: %s", path, key, out.body, problem, sentence)
			}
			return out
		}
		ask("/bucket", "sk_revoked_1", 429, httpanswer.AbnormalUsage, "This client is blocked; no waiting helps.")
		for _, path := range []string{"/bucket", "/window"} {
			for range 3 {
				ask(path, "known", 200, "", "")
			}
			out := ask(path, "known", 429, httpanswer.QuotaExceeded, "admits no more for now; retry after ")
			if wait := out.number(t, "Retry-After"); wait < 900 || !strings.HasSuffix(out.Header.Get("RateLimit"), fmt.Sprintf(";t=%d", wait)) {
				t.Errorf("%v", out.Header)
			}
		}
		s.fault.Store(new("stopped"))
		ask("/closed", "known", 503, httpanswer.ReducedCapacity, "This service cannot tell now what is left of the limit r2 (3 in ")
		ask("/window", "unknown", 503, httpanswer.ReducedCapacity, "cannot tell now what is left of the limit r1")
		for _, path := range []string{"/bucket", "/window"} {
			out := ask(path, "known", 429, httpanswer.QuotaExceeded, "admits less than usual for now, and not this request; retry after ")
			if wait := out.number(t, "Retry-After"); wait > int64((storeguard.MaxOpen+storeguard.Deadline).Seconds())+1 || !out.problem(t).Degraded || out.Header.Get("X-RateLimit-Policy") != "degraded" {
				t.Errorf("a wait of %d s: %v %s", wait, out.Header, out.body)
			}
		}
		// A proxy may ask for another status, and Envoy lets a request pass of which it hears 5xx.
		for target, want := range map[string]int{"/check?deny_status=403": 403, "/check/closed": 429} {
			out := proxied(t, d, "GET", target, "X-API-Key: known", "X-Original-URI: /closed")
			if out.StatusCode != want || out.Header.Get("X-RateLimit-Problem") != httpanswer.ReducedCapacity || out.problem(t).Status != want {
				t.Errorf("%s: %s %v %s", target, out.Status, out.Header, out.body)
			}
		}
	})
}

// TestWhatIsLeftIsSaid: "used up" was said of a limit with 9 left.
func TestWhatIsLeftIsSaid(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, problemRules).address()))
		proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: /bucket")
		out := proxied(t, d, "GET", "/check?cost=3", "X-API-Key: k", "X-Original-URI: /bucket")
		if p := out.problem(t); !strings.Contains(p.Detail, "The limit r0 (3 in 3000 s) has 2 left, which is less than the request asks for; retry after ") {
			t.Error(out.body)
		}
	})
}
