package regional

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aliquot/internal/identity"
	"aliquot/internal/testlog"
)

const proxyRules = `
defaults: {enforcement: independent}
rules:
  - {id: r0, key: [api_key], params: {capacity: 2, refill_rate: 0.001}}
  - {id: r1, match: {endpoint_regex: "^/orders"}, key: [ip], params: {capacity: 1, refill_rate: 0.001}}
  - {id: r2, match: {attributes: {method: DELETE}}, key: [], params: {capacity: 1, refill_rate: 0.001}}
  - {id: r3, match: {endpoint_regex: "^/watched"}, shadow: true, params: {capacity: 1, refill_rate: 0.001}}
whitelist: ["sk_internal_*"]
blacklist: ["sk_revoked_*"]
`

// reply is an answer of /check.
type reply struct {
	*http.Response
	body string
}

// proxied sends a request to /check; lines are headers, "Name: value".
func proxied(t *testing.T, d *Daemon, method, target string, lines ...string) reply {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+d.Addr()+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		request.Header.Add(name, value)
	}
	resp, err := transportOf(d).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp, string(body)}
}

func (r reply) number(t *testing.T, header string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(r.Header.Get(header), 10, 64)
	if err != nil {
		t.Errorf("%s: %v", header, err)
	}
	return n
}

func TestProxyIsAnswered(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, proxyRules).address()))
		began := time.Now().Unix()
		first := proxied(t, d, "GET", "/check", "X-API-Key: k")
		if first.StatusCode != 200 || first.body != "" || first.Header.Get("Cache-Control") != "no-store" ||
			first.number(t, "X-RateLimit-Limit") != 2 || first.number(t, "X-RateLimit-Remaining") != 1 {
			t.Errorf("%s %v", first.Status, first.Header)
		}
		if at := first.number(t, "X-RateLimit-Reset"); at < began+1000 || at > time.Now().Unix()+1001 {
			t.Errorf("reset at %d, began at %d", at, began)
		}
		if got := first.Header.Get("RateLimit"); got != `"r0";r=1;t=1000` {
			t.Errorf("RateLimit: %s", got)
		}
		if got := first.Header.Get("RateLimit-Policy"); !strings.HasPrefix(got, `"r0";q=2`) {
			t.Errorf("RateLimit-Policy: %s", got)
		}
		never := proxied(t, d, "GET", "/check?cost=3", "X-API-Key: k")
		if never.StatusCode != 429 || never.Header.Get("Retry-After") != "" || !strings.Contains(never.body, "no waiting helps") {
			t.Errorf("%s %v %s", never.Status, never.Header, never.body)
		}
		proxied(t, d, "GET", "/check", "X-API-Key: k")
		denied := proxied(t, d, "GET", "/check?cost=2", "X-API-Key: k")
		var problem struct {
			Status   int
			Instance string
			Violated []string `json:"violated-policies"`
			Error    struct {
				Code    string
				Details struct {
					Limit, Retry, Reset float64
				}
			}
		}
		if err := json.Unmarshal([]byte(denied.body), &problem); err != nil {
			t.Fatal(err)
		}
		if denied.StatusCode != 429 || denied.Header.Get("Content-Type") != "application/problem+json" || denied.number(t, "Retry-After") < 1 ||
			problem.Status != 429 || problem.Error.Code != "RATE_LIMIT_EXCEEDED" || len(problem.Violated) != 1 || problem.Violated[0] != "r0" ||
			problem.Instance == "" || problem.Instance != denied.Header.Get("X-Decision-Id") || !strings.HasPrefix(problem.Instance, "us-") {
			t.Errorf("%s %v %s", denied.Status, denied.Header, denied.body)
		}
		if again := proxied(t, d, "GET", "/check?cost=2", "X-API-Key: k"); again.Header.Get("X-Decision-Id") == problem.Instance {
			t.Error("two denials have one id")
		}
	})
}

// TestRetryAfterIsNeverEarly waits out what a denial says.
func TestRetryAfterIsNeverEarly(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, "rules: [{id: r0, enforcement: independent, params: {capacity: 2, refill_rate: 1}}]").address()))
		const key = "X-API-Key: k"
		if a := proxied(t, d, "GET", "/check?cost=2", key); a.StatusCode != 200 {
			t.Fatal(a.Status, a.body)
		}
		denied := proxied(t, d, "GET", "/check", key)
		wait := denied.number(t, "Retry-After")
		if denied.StatusCode != 429 || wait != 1 {
			t.Fatalf("%s, wait %d s", denied.Status, wait)
		}
		<-time.After(time.Duration(wait) * time.Second)
		if a := proxied(t, d, "GET", "/check", key); a.StatusCode != 200 {
			t.Errorf("%s after the time it said", a.Status)
		}
	})
}

func TestWhatProxiesSend(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, proxyRules).address()))
		for i, c := range []struct {
			name, method, target string
			lines                []string
			status               int
			rule                 string // of the headers
		}{
			{"nginx", "GET", "/check?deny_status=403", []string{"X-Original-URI: /orders/5?x=1", "X-Original-Method: POST", "X-Forwarded-For: 198.51.100.1"}, 200, "r1"},
			{"nginx, denied", "GET", "/check?deny_status=403", []string{"X-Original-URI: /%6Frders/6", "X-Original-Method: POST", "X-Forwarded-For: 198.51.100.1"}, 403, "r1"},
			{"Traefik, another client", "GET", "/check", []string{"X-Forwarded-Uri: /orders/5", "X-Forwarded-Method: POST", "X-Forwarded-For: 198.51.100.2"}, 200, "r1"},
			{"Traefik, the same", "GET", "/check", []string{"X-Forwarded-Uri: /orders/5", "X-Forwarded-Method: POST", "X-Forwarded-For: 6.6.6.6, 198.51.100.2"}, 429, "r1"},
			{"Envoy", "DELETE", "/check//x/../orders/7", []string{"X-Forwarded-For: 198.51.100.3"}, 200, "r1"},
			{"Envoy, denied", "DELETE", "/check/other?cost=0&deny_status=200", []string{"X-Original-Method: GET", "X-Forwarded-For: 198.51.100.4"}, 429, "r2"},
			{"Envoy, the root", "GET", "/check/", []string{"X-Forwarded-For: 198.51.100.5"}, 200, "r0"},
			{"the same in both headers", "GET", "/check", []string{"X-Forwarded-Uri: /a", "X-Original-URI: /a", "X-Forwarded-For: 198.51.100.6"}, 200, "r0"},
			{"HEAD", "HEAD", "/check", []string{"X-API-Key: head"}, 200, "r0"},
			{"POST", "POST", "/check", []string{"X-API-Key: post"}, 200, "r0"},
			{"TRACE", "TRACE", "/check", []string{"X-API-Key: trace"}, 200, "r0"},
			{"a bearer token", "GET", "/check?cost=2", []string{"Authorization: Bearer t"}, 200, "r0"},
			{"the same as a key", "GET", "/check", []string{"X-API-Key: t"}, 429, "r0"},
			{"in another namespace", "GET", "/check?namespace=n", []string{"X-API-Key: t"}, 200, "r0"},
			{"a user", "GET", "/check?cost=2", []string{"X-User-Id: alice"}, 200, "r0"},
			{"another", "GET", "/check?cost=2", []string{"X-User-Id: bob"}, 200, "r0"},
			{"the first again", "GET", "/check", []string{"X-User-Id: alice"}, 429, "r0"},
			{"an address", "GET", "/check?cost=2", []string{"X-Forwarded-For: 2001:db8::1"}, 200, "r0"},
			{"its neighbour", "GET", "/check", []string{"X-Forwarded-For: 2001:db8::2"}, 429, "r0"},
			{"a key of its name", "GET", "/check", []string{"X-API-Key: ip:2001:db8::/64"}, 200, "r0"},
			{"on the allow list", "GET", "/check", []string{"X-API-Key: sk_internal_1"}, 200, ""},
			{"on the block list", "GET", "/check", []string{"X-API-Key: sk_revoked_1"}, 429, ""},
			{"the rule that watches", "GET", "/check", []string{"X-API-Key: w", "X-Original-URI: /watched"}, 200, "r0"},
			{"though it would deny", "GET", "/check", []string{"X-API-Key: w", "X-Original-URI: /watched"}, 200, "r0"},
			{"braces, globs", "GET", "/check", []string{"X-API-Key: }{*"}, 200, "r0"},
		} {
			a := proxied(t, d, c.method, c.target, c.lines...)
			rule, _, _ := strings.Cut(a.Header.Get("RateLimit-Policy"), ";")
			if a.StatusCode != c.status || strings.Trim(rule, `"`) != c.rule {
				t.Errorf("%d %s: %s, rule %s (%v) %s; want %d, %s", i, c.name, a.Status, rule, a.Header, a.body, c.status, c.rule)
			}
		}
	})
}

func TestProxiesThatSendRubbish(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, proxyRules).address()))
		for _, c := range []struct {
			name, target string
			lines        []string
		}{
			{"cost 0", "/check?cost=0", nil},
			{"a negative cost", "/check?cost=-1", nil},
			{"the least cost", "/check?cost=-9223372036854775808", nil},
			{"the largest cost", "/check?cost=9223372036854775807", nil},
			{"a cost beyond", "/check?cost=9223372036854775808", nil},
			{"NaN", "/check?cost=NaN", nil},
			{"1e400", "/check?cost=1e400", nil},
			{"1.5", "/check?cost=1.5", nil},
			{"no cost", "/check?cost=", nil},
			{"two costs", "/check?cost=1&cost=1", nil},
			{"a misspelt cost", "/check?costs=5", nil},
			{"success for a denial", "/check?deny_status=200", nil},
			{"a redirect for a denial", "/check?deny_status=302", nil},
			{"no status", "/check?deny_status=0403", nil},
			{"an odd status", "/check?deny_status=600", nil},
			{"a long namespace", "/check?namespace=" + strings.Repeat("n", 65), nil},
			{"a namespace that is not UTF-8", "/check?namespace=%ff", nil},
			{"a broken query", "/check?cost=%zz", nil},
			{"a semicolon", "/check?cost=1;namespace=b", nil},
			{"a key of 5,000 bytes", "/check", []string{"X-API-Key: " + strings.Repeat("k", 5000)}},
			{"a key that is not UTF-8", "/check", []string{"X-API-Key: sk\xff"}},
			{"two keys", "/check", []string{"X-API-Key: a", "X-API-Key: b"}},
			{"a path of 5,000 bytes", "/check", []string{"X-Original-URI: /" + strings.Repeat("k", 5000)}},
			{"a path whose encoding is invalid", "/check", []string{"X-Original-URI: /%zz"}},
			{"the client's query, by way of Caddy", "/check?namespace=mine", []string{"X-Forwarded-Uri: /a?namespace=mine"}},
			{"two opinions of the path", "/check", []string{"X-Original-URI: /a", "X-Forwarded-Uri: /b"}},
			{"two paths", "/check", []string{"X-Original-URI: /a", "X-Original-URI: /b"}},
			{"two opinions of the method", "/check", []string{"X-Original-Method: GET", "X-Forwarded-Method: POST"}},
		} {
			a := proxied(t, d, "GET", c.target, c.lines...)
			if a.StatusCode != 400 || a.Header.Get("Content-Type") != "application/problem+json" || !json.Valid([]byte(a.body)) || len(a.body) > 400 ||
				strings.Contains(a.body, "kkkk") {
				t.Errorf("%s: %s %s", c.name, a.Status, a.body)
			}
		}
		// Ordinary, however it looks.
		thousand := strings.TrimSuffix(strings.Repeat("198.51.100.1,", 1000), ",")
		for _, line := range []string{"X-Forwarded-For: " + thousand, "X-Forwarded-For: ,,,", "X-Forwarded-For: ::ffff:198.51.100.9",
			"X-Original-URI: http://evil.example/../..", "X-Original-URI: *", "X-Original-URI: /\xff", "Authorization: Bearer", "Cookie: a=b"} {
			if a := proxied(t, d, "GET", "/check?namespace="+strconv.Itoa(len(line)), line); a.StatusCode != 200 {
				t.Errorf("%.40q: %s %s", line, a.Status, a.body)
			}
		}
	})
}

// TestRawRequestsToCheck are those that no client library sends.
func TestRawRequestsToCheck(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, proxyRules).address()))
	for name, c := range map[string]struct {
		raw  string
		want int
	}{
		"HTTP/1.0":          {"GET /check HTTP/1.0\r\nX-API-Key: a\r\n\r\n", 200},
		"absolute form":     {"GET http://other/check HTTP/1.1\r\nHost: h\r\nX-API-Key: b\r\n\r\n", 200},
		"no host":           {"GET /check HTTP/1.1\r\n\r\n", 400},
		"a folded value":    {"GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key: a\r\n b\r\n\r\n", 200},
		"CR in a value":     {"GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key: a\rb\r\n\r\n", 400},
		"NUL in a value":    {"GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key: a\x00b\r\n\r\n", 400},
		"TE and CL":         {"POST /check HTTP/1.1\r\nHost: h\r\nX-API-Key: c\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		"two lengths":       {"POST /check HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", 400},
		"too many headers":  {"GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key: " + strings.Repeat("k", 40<<10) + "\r\n\r\n", 431},
		"a long URI":        {"GET /check?x=" + strings.Repeat("k", 40<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
		"an escaped prefix": {"GET /%63heck HTTP/1.1\r\nHost: h\r\n\r\n", 404},
	} {
		conn, err := net.Dial("tcp", d.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		// The server may answer and close before it has read all.
		var sent sync.WaitGroup
		sent.Go(func() { _, _ = io.WriteString(conn, c.raw) })
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.want)
		}
		conn.Close()
		sent.Wait()
	}
}

func TestCheckWithoutRules(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := start(t, testConfig("127.0.0.1:1"))
		a := proxied(t, d, "GET", "/check", "X-API-Key: k")
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("X-RateLimit-Policy") != "degraded" || a.Header.Get("X-RateLimit-Remaining") != "-1" {
			t.Errorf("%s %v", a.Status, a.Header)
		}
	})
}

func TestCheckWhileTheStoreIsDown(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, `
rules:
  - {id: r0, match: {attributes: {endpoint: /closed}}, on_redis_failure: closed, params: {capacity: 2, refill_rate: 1}}
  - {id: r1, match: {attributes: {endpoint: /open}}, on_redis_failure: open, params: {capacity: 2, refill_rate: 1}}
`).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	redis.signal(syscall.SIGKILL)
	for path, want := range map[string]int{"/closed": 503, "/open": 200} {
		eventually(t, "the daemon decides "+path+" without its store", func() bool {
			a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: "+path)
			return a.StatusCode == want && a.Header.Get("X-RateLimit-Policy") == "degraded" && a.Header.Get("X-RateLimit-Remaining") == "-1" &&
				a.Header.Get("RateLimit") == "" && (a.Header.Get("Retry-After") != "") == (want == 503)
		})
	}
}

func TestSettingsOfCheck(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var log testlog.Buffer
		c := testConfig(newLeader(t, proxyRules).address())
		c.Headers = "legacy"
		c.Identity = identity.Config{APIKeyFrom: []string{"query:key", "jwt:sub"}, TrustedProxies: []string{"192.0.2.0/24"}}
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d, _ := startLive(t, c)
		for range 2 {
			if a := proxied(t, d, "GET", "/check?key=q", "X-API-Key: h"); a.StatusCode != 200 || a.Header.Get("RateLimit") != "" || a.Header.Get("X-RateLimit-Limit") != "2" {
				t.Errorf("%s %v", a.Status, a.Header)
			}
		}
		if a := proxied(t, d, "GET", "/check?cost=2&key=other"); a.StatusCode != 400 {
			t.Errorf("a cost of a peer that is not trusted: %s", a.Status)
		}
		if a := proxied(t, d, "GET", "/check", "X-Original-URI: /x?key=q", "X-Forwarded-For: 198.51.100.1"); a.StatusCode != 429 {
			t.Errorf("the same key in the original query: %s", a.Status)
		}
		for client := range 2 {
			if a := proxied(t, d, "GET", "/check", fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", client), fmt.Sprintf("X-User-Id: user-%d", client)); a.StatusCode != 200 {
				t.Errorf("%s", a.Status)
			}
		}
		if a := proxied(t, d, "GET", "/check", "X-Forwarded-For: 198.51.100.3", "X-User-Id: b"); a.StatusCode != 429 {
			t.Errorf("the word of a proxy that is not trusted made another client: %s", a.Status)
		}
		if n := strings.Count(log.String(), "--trusted-proxies"); n != 1 {
			t.Errorf("told %d times that a proxy is not trusted", n)
		}
		for name, change := range map[string]func(*Config){
			"--headers":          func(c *Config) { c.Headers = "all" },
			"--api-key-from":     func(c *Config) { c.Identity.APIKeyFrom = []string{"cookie"} },
			"--trusted-proxies":  func(c *Config) { c.Identity.TrustedProxies = []string{"everyone"} },
			"--attribute-header": func(c *Config) { c.Identity.AttributeHeaders = []string{"X-Tier"} },
		} {
			wrong := testConfig("127.0.0.1:1")
			change(&wrong)
			if err := wrong.Validate(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A proxy says the tier and the costs; a name that the rules do not know counts as none.
func TestCheckTakesAttributesFromHeaders(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, `rules:
  - {id: r0, tier: gold, params: {capacity: 5, refill_rate: 0.001}}
  - {id: r1, unit: tokens, params: {capacity: 100, refill_rate: 0.001}}
`).address())
		c.Identity.AttributeHeaders = []string{"X-Tier=tier", "X-Tokens=costs.tokens"}
		d, _ := startLive(t, c)
		for _, c := range []struct{ header, limit, remaining string }{
			{"X-Tier: gold", "5", "4"},
			{"X-Tokens: 30", "100", "70"},
			{"X-Tier: platinum", "", ""},
			{"X-Tier: ", "", ""},
		} {
			a := proxied(t, d, "GET", "/check", "X-API-Key: k", c.header)
			if a.StatusCode != 200 || a.Header.Get("X-RateLimit-Limit") != c.limit || a.Header.Get("X-RateLimit-Remaining") != c.remaining {
				t.Errorf("%s: %s %v", c.header, a.Status, a.Header)
			}
		}
		if a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Tokens: many"); a.StatusCode != 400 {
			t.Errorf("a cost that is no number: %s", a.Status)
		}
		if text := scrape(t, d); !strings.Contains(text, "aliquot_unknown_tier_total 1\n") {
			t.Error("the unknown tier was not counted once")
		}
	})
}

// TestNoSpellingEvadesARule: a rule about paths applies to a path as it came and as a server may
// decode it, and to nobody twice.
func TestNoSpellingEvadesARule(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `rules:
  - {id: r0, match: {endpoint_regex: "^/v1/orders"}, params: {capacity: 5, refill_rate: 0.001}}
`).address()))
		for i, path := range []string{"/v1/orders", "/v1%2Forders", "/v1;a=b/orders", `/v1\orders`, "/x/..%2fv1//orders"} {
			a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: "+path)
			if want := strconv.Itoa(4 - i); a.StatusCode != 200 || a.Header.Get("X-RateLimit-Remaining") != want {
				t.Errorf("%s: %s, %q left, want %s", path, a.Status, a.Header.Get("X-RateLimit-Remaining"), want)
			}
		}
		if a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: /v1%252Forders"); a.StatusCode != 429 {
			t.Errorf("a sixth spelling: %s", a.Status)
		}
		if a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: /v1%2"); a.StatusCode != 400 {
			t.Errorf("an invalid encoding: %s", a.Status)
		}
	})
}

// TestAKeyBesideAnother: a header that anybody can make up does not stand in for a bearer token.
func TestAKeyBesideAnother(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, "rules: [{id: r0, params: {capacity: 5, refill_rate: 0.001}}]").address()))
		for path, want := range map[string]int{"/check": 400, "/check?deny_status=403": 403, "/check/v1": 400} {
			a := proxied(t, d, "GET", path, "X-API-Key: made-up", "Authorization: Bearer real")
			if a.StatusCode != want {
				t.Errorf("%s: %s, want %d", path, a.Status, want)
			}
		}
	})
}

func TestMoreRulesThanOneCallHolds(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var yaml strings.Builder
		yaml.WriteString("rules:\n")
		numbers := map[string]uint32{}
		for i := range 65 {
			numbers[fmt.Sprintf("r%d", i)] = uint32(i + 1)
			fmt.Fprintf(&yaml, "  - {id: r%d, params: {capacity: 2, refill_rate: 1}}\n", i)
		}
		l := newLeader(t, yaml.String())
		l.set(func() { l.rules.Numbers = numbers })
		d, _ := startLive(t, testConfig(l.address()))
		if a := proxied(t, d, "GET", "/check", "X-API-Key: k"); a.StatusCode != 500 || !strings.Contains(a.body, "narrow their match") {
			t.Errorf("%s %s", a.Status, a.body)
		}
	})
}

// TestEveryAlgorithmIsAnswered: with its window, its unit, and the delay of a queue.
func TestEveryAlgorithmIsAnswered(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `
defaults: {enforcement: independent}
rules:
  - {id: r0, match: {attributes: {endpoint: /bucket}}, params: {capacity: 100, refill_rate: 1.67, window: 60}}
  - {id: r1, match: {attributes: {endpoint: /queue}}, algorithm: leaky_bucket, mode: queue, params: {capacity: 10, refill_rate: 0.002}}
  - {id: r2, match: {attributes: {endpoint: /fixed}}, algorithm: fixed_window, params: {limit: 2, window: 1h}}
  - {id: r3, match: {attributes: {endpoint: /log}}, algorithm: sliding_window_log, params: {limit: 2, window: 90}}
  - {id: r4, match: {attributes: {endpoint: /counter}}, algorithm: sliding_window_counter, params: {limit: 2, window: 90}}
  - {id: r5, match: {attributes: {endpoint: /slots}}, algorithm: concurrency, params: {limit: 2, window: 90}}
  - {id: r6, match: {attributes: {endpoint: /watched}}, shadow: true, params: {limit: 2, window: 90}}
`).address()))
		for _, c := range []struct {
			path, policy string
			delayed      bool
			then         int // the third request's status
		}{
			{"/bucket", `"r0";q=100;w=60`, false, 200},
			{"/queue", `"r1";q=10;w=5000`, true, 200},
			{"/fixed", `"r2";q=2;w=3600`, false, 429},
			{"/log", `"r3";q=2;w=90`, false, 429},
			{"/counter", `"r4";q=2;w=90`, false, 429},
			{"/slots", `"r5";q=2;w=90;qu="concurrent-requests"`, false, 429},
			{"/watched", "", false, 200},
		} {
			for i, want := range []int{200, 200, c.then} {
				a := proxied(t, d, "GET", "/check", "X-API-Key: k", "X-Original-URI: "+c.path)
				if a.StatusCode != want || a.Header.Get("RateLimit-Policy") != c.policy {
					t.Errorf("%s, request %d: %s %v %s", c.path, i, a.Status, a.Header, a.body)
				}
				delay := a.Header.Get("X-RateLimit-Delay")
				seconds, err := strconv.ParseFloat(delay, 64)
				if c.delayed && i > 0 && (err != nil || seconds < 400*float64(i) || seconds > 500*float64(i)) || (!c.delayed || i == 0) && delay != "" {
					t.Errorf("%s, request %d: delay %q", c.path, i, delay)
				}
				if want == 429 && (a.number(t, "Retry-After") < 1 || a.number(t, "Retry-After") > 3601 || a.Header.Get("X-RateLimit-Remaining") != "0") {
					t.Errorf("%s, request %d: %v", c.path, i, a.Header)
				}
			}
		}
	})
}
