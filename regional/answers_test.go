package regional

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"aliquot/internal/pinned"
)

// answersRules have limits that refill so slowly that the seconds of a test change no answer.
const answersRules = `
defaults: {enforcement: independent}
rules:
  - {id: r0, match: {api_key_pattern: "k*"}, params: {capacity: 2, refill_rate: 0.001}}
  - {id: r1, match: {endpoint_regex: "^/orders"}, key: [ip], params: {capacity: 1, refill_rate: 0.001}}
  - {id: r2, match: {endpoint_regex: "^/quiet"}, shadow: true, params: {capacity: 1, refill_rate: 0.001}}
  - {id: r3, match: {attributes: {domain: shop}}, key: [tenant], params: {capacity: 3, refill_rate: 0.001, window: 1h}}
whitelist: ["sk_internal_*"]
blacklist: ["sk_revoked_*"]
`

// varying are the parts of an answer that differ from run to run: the ids of denials, and instants.
var varying = regexp.MustCompile(`us-[0-9a-z]+-|(reset_at":|expiresUnixMs":"|X-Ratelimit-Reset: )[0-9]+`)

// oneBuild replaces what protobuf writes with other spaces in some builds.
var oneBuild = strings.NewReplacer(`, "`, `,"`, `, {`, `,{`, "\u00a0", " ")

// TestPinnedAnswers: checks over JSON, of a proxy and of Envoy are answered as they were, headers included.
func TestPinnedAnswers(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, answersRules).address()))
		var out strings.Builder
		for _, call := range []string{
			`Check {"attributes":{"api_key":"k1"}}`,
			`Check {"attributes":{"api_key":"k1"},"cost":"2"}`,
			`Check {"attributes":{"api_key":"k1"},"cost":3}`,
			`Check {"attributes":{"api_key":"k1"},"cost":0}`,
			`Check {"attributes":{"api_key":"k1","endpoint":"/orders/7","ip":"10.0.0.1"}}`,
			`Check {"attributes":{"user":"u"}}`,
			`Check {"attributes":{"api_key":"sk_internal_1"}}`,
			`Check {"attributes":{"api_key":"sk_revoked_1"}}`,
			`Check {"attributes":{"endpoint":"/quiet"},"cost":2}`,
			`Check {"attributes":`,
			`CheckBatch {"requests":[{"attributes":{"api_key":"k2"}},{"attributes":{"api_key":"k2"},"cost":2}]}`,
			`Reserve {"attributes":{"api_key":"k3"},"cost":2,"id":"r","ttl":"60s"}`,
			`Settle {"id":"r","cost":1}`,
			`Settle {"id":"another","cost":1}`,
		} {
			method, body, _ := strings.Cut(call, " ")
			request, err := http.NewRequest("POST", "http://"+d.Addr()+"/aliquot.v1.LimiterService/"+method, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			dump(t, d, &out, call, request)
		}
		for _, call := range []string{
			"X-Api-Key: k4", "X-Api-Key: k4; cost: 2", "X-Api-Key: k4; cost: 3", "X-Api-Key: k4; cost: none", "X-Api-Key: sk_revoked_2",
			"X-Original-Uri: /orders/8; X-Api-Key: k5", "X-Original-Uri: /orders/9; X-Api-Key: k6", "X-User-Id: u",
		} {
			request, err := http.NewRequest("GET", "http://"+d.Addr()+"/check", nil)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(call, "; ") {
				if name, value, _ := strings.Cut(line, ": "); name == "cost" {
					request.URL.RawQuery = "cost=" + value
				} else {
					request.Header.Set(name, value)
				}
			}
			dump(t, d, &out, "GET /check "+call, request)
		}
		for _, hits := range []uint32{1, 2, 1, 4} {
			answer, err := protojson.Marshal(envoy(t, d, "shop", hits, entries("tenant", "t1"), entries("api_key", "k7")))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "ShouldRateLimit shop, tenant=t1 and api_key=k7, %d hits\n%s\n\n", hits, answer)
		}
		pinned.Compare(t, "answers.txt", varying.ReplaceAllString(oneBuild.Replace(out.String()), "${1}*"))
	})
}

// dump sends a request and writes it with its answer.
func dump(t *testing.T, d *Daemon, out *strings.Builder, call string, request *http.Request) {
	t.Helper()
	answer, err := transportOf(d).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "%s\n%s\n", call, answer.Status)
	for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
		if name != "Date" && name != "Content-Length" {
			fmt.Fprintf(out, "%s: %s\n", name, answer.Header.Get(name))
		}
	}
	fmt.Fprintf(out, "%s\n\n", strings.TrimSpace(string(body)))
}
