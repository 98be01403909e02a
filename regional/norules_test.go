package regional

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/modes"
)

// unknownRules starts a daemon that no coordinator answers and that has no state file.
func unknownRules(t *testing.T, change ...func(*Config)) *Daemon {
	t.Helper()
	c := testConfig("127.0.0.1:1")
	for _, f := range change {
		f(&c)
	}
	d, _ := start(t, c)
	return d
}

// everyWay asks a daemon for n requests in each way there is, and counts those that it lets pass.
func everyWay(t *testing.T, d *Daemon, n int) map[string]int {
	t.Helper()
	passed := map[string]int{}
	attributes := map[string]string{"api_key": "k"}
	clients := map[string]aliquotv1.LimiterServiceClient{"gRPC": aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))}
	connectClient := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
	count := func(way string, allowed bool, err error) {
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if passed[way] += 0; allowed {
			passed[way]++
		}
	}
	for range n {
		a, err := connectClient.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: attributes})
		count("Connect Check", a.GetAllowed(), err)
		for name, c := range clients {
			a, err := c.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: attributes})
			count(name+" Check", a.GetAllowed(), err)
			b, err := c.CheckBatch(t.Context(), &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{{Attributes: attributes}, {Attributes: attributes}}})
			for _, r := range b.GetResults() {
				count(name+" CheckBatch", r.GetResponse().GetAllowed(), err)
			}
			r, err := c.Reserve(t.Context(), &aliquotv1.ReserveRequest{Attributes: attributes})
			count(name+" Reserve", r.GetDecision().GetAllowed(), err)
		}
		count("GET /check", proxied(t, d, http.MethodGet, "/check", "X-API-Key: k").StatusCode == http.StatusOK, nil)
		count("ShouldRateLimit", codesOf(envoy(t, d, "shop", 1, entries("tenant", "t"))) == "k:k", nil)
		count("ShouldRateLimit of nothing", codesOf(envoy(t, d, "shop", 0, costing(0, entries("tenant", "t")))) == "k:k", nil)
	}
	return passed
}

// TestNothingPassesBeforeTheRulesAreKnown: a daemon that neither a state file nor a coordinator has
// told the rules denies every request, in every way that it can be asked.
func TestNothingPassesBeforeTheRulesAreKnown(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := unknownRules(t)
		for way, n := range everyWay(t, d, 20) {
			if n > 0 {
				t.Errorf("%s: %d requests passed before the rules were known", way, n)
			}
		}
	})
}

// TestTheAnswerBeforeTheRulesAreKnown is a denial like any other, which says what to do; over HTTP
// it is 503, or the status that the proxy asks for.
func TestTheAnswerBeforeTheRulesAreKnown(t *testing.T) {
	d := unknownRules(t)
	a := check(t, d, "k")
	if a.Status != http.StatusOK || a.Allowed || a.Mode != modes.NoRulesYet || a.RetryAfter != "1s" || a.Never || !strings.Contains(a.Reason, "--coordinators") {
		t.Errorf("Check: %+v", a)
	}
	r := proxied(t, d, http.MethodGet, "/check", "X-API-Key: k")
	var p struct {
		Type   string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") != "1" ||
		p.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" || p.Status != r.StatusCode || p.Detail == "" {
		t.Errorf("GET /check: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	if r := proxied(t, d, http.MethodGet, "/check?deny_status=403", "X-API-Key: k"); r.StatusCode != http.StatusForbidden || r.Header.Get("Retry-After") != "1" {
		t.Errorf("GET /check?deny_status=403: %d %v", r.StatusCode, r.Header)
	}
	// With failure_mode_allow Envoy lets pass what its authorization server answers by a 5xx.
	if r := proxied(t, d, http.MethodGet, "/check/orders", "X-API-Key: k"); r.StatusCode != http.StatusTooManyRequests || !strings.Contains(r.body, "temporary-reduced-capacity") {
		t.Errorf("GET /check/orders: %d %s", r.StatusCode, r.body)
	}
	// An error would let the request pass in an Envoy with failure_mode_deny: false, its default.
	e := envoy(t, d, "shop", 1, entries("tenant", "t"))
	if codesOf(e) != "O:O" || headerOf(e, "Retry-After") != "1" {
		t.Errorf("ShouldRateLimit: %v", e)
	}
	if readyz(t, d) != http.StatusServiceUnavailable || !strings.Contains(reasonOf(t, d), "every request is denied") {
		t.Errorf("not ready because: %s", reasonOf(t, d))
	}
	for _, want := range []string{`aliquot_decisions_total{mode="no_rules_yet",outcome="denied",region="us",rule=""} 5`, `aliquot_degraded{reason="no_rules"} 1`} {
		if !strings.Contains(scrape(t, d), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// TestDenialsBeforeTheRulesAreKnownAreExplained: and share a name for a while, so that they do not
// push others out of what is remembered.
func TestDenialsBeforeTheRulesAreKnownAreExplained(t *testing.T) {
	d := unknownRules(t)
	client := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
	ids := map[string]bool{}
	for i := range 200 {
		a, err := client.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		ids[a.GetDecisionId()] = true
	}
	if ids[""] || len(ids) == 200 {
		t.Errorf("%d names for 200 denials: %v", len(ids), ids)
	}
	for id := range ids {
		e, err := client.Explain(t.Context(), &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: id}})
		if err != nil || e.GetDecision().GetMode() != modes.NoRulesYet || len(e.GetRules()) > 0 {
			t.Errorf("%s: %v, %v", id, e, err)
		}
	}
}

// TestRequestsPassWithoutRulesIfSoChosen: --without-rules allow, until the rules are known.
func TestRequestsPassWithoutRulesIfSoChosen(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules:\n  - id: r0\n    params: {capacity: 1, refill_rate: 0.001}\nblacklist: [k]\n")
		l.set(func() { l.down = true })
		c := testConfig(l.address())
		c.WithoutRules = PassWithoutRules
		d, _ := start(t, c)
		for way, n := range everyWay(t, d, 1) {
			if n == 0 {
				t.Errorf("%s is denied", way)
			}
		}
		if a := check(t, d, "k"); !a.Allowed || a.Mode != modes.NoRulesYet || readyz(t, d) != http.StatusServiceUnavailable {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
		l.set(func() { l.down = false })
		eventually(t, "the rules hold", func() bool { return check(t, d, "k").Mode == modes.BlockList })
		if readyz(t, d) != http.StatusOK || !strings.Contains(scrape(t, d), `aliquot_degraded{reason="no_rules"} 0`) {
			t.Error("not ready with rules")
		}
	})
}

// TestNoRulesAreTold: a coordinator says that there are no rules; then everything passes, also
// after a restart without coordinators, until some are applied.
func TestNoRulesAreTold(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "")
		l.set(func() { l.rules = nil })
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state")
		d, stop := startLive(t, c)
		if a := check(t, d, "k"); !a.Allowed || a.Mode != modes.NoRule || readyz(t, d) != http.StatusOK {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
		reserved := reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: map[string]string{"api_key": "k"}, Id: "one"})
		if !reserved.GetDecision().GetAllowed() || reserved.GetDecision().GetMode() != modes.NoRule {
			t.Errorf("%v", reserved)
		}
		eventually(t, "a state file that says so", func() bool {
			s, err := readState(c.StateFile, "us", c.Logger)
			return err == nil && s != nil && s.NoRules
		})
		stop()
		l.set(func() { l.down = true })
		d, _ = start(t, c)
		if a := check(t, d, "k"); !a.Allowed || a.Mode != modes.NoRule {
			t.Errorf("after a restart: %+v", a)
		}
		l.set(func() { l.down = false })
		l.setRules(1, "rules: []\nblacklist: [k]\n")
		eventually(t, "the first rules hold", func() bool { return check(t, d, "k").Mode == modes.BlockList })
		eventually(t, "the state file has them", func() bool {
			s, err := readState(c.StateFile, "us", c.Logger)
			return err == nil && s != nil && !s.NoRules && s.Rules.Version == 1
		})
	})
}

// TestSilenceAboutRulesIsNotNone: a session without rules, from a coordinator that does not say that
// there are none, lets nothing pass.
func TestSilenceAboutRulesIsNotNone(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "")
		l.set(func() { l.rules, l.silent = nil, true })
		d, _ := startLive(t, testConfig(l.address()))
		if a := check(t, d, "k"); a.Allowed || a.Mode != modes.NoRulesYet || readyz(t, d) != http.StatusServiceUnavailable {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
	})
}

// TestRulesOutlastTheWordOfNone: versions only rise, so a coordinator that says there are no rules
// knows less than this daemon.
func TestRulesOutlastTheWordOfNone(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: []\nblacklist: [k]\n")
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state")
		_, stop := startLive(t, c)
		stop()
		l.set(func() { l.rules = nil })
		d, _ := startLive(t, c)
		if a := check(t, d, "k"); a.Allowed || a.Mode != modes.BlockList {
			t.Errorf("%+v", a)
		}
	})
}

// TestNothingPassesBeforeTheFirstHello: the ordinary first start. Requests that come from the first
// moment on are denied until the rules are there, and decided by them from then on.
func TestNothingPassesBeforeTheFirstHello(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    params: {capacity: 10, refill_rate: 0.001}\n")
		l.set(func() { l.down = true })
		d, _ := start(t, testConfig(l.address()))
		early, passed, limited := 0, 0, false
		eventually(t, "the limit holds", func() bool {
			a := check(t, d, "k")
			switch {
			case a.Mode == modes.NoRulesYet:
				if early++; early == 20 {
					l.set(func() { l.down = false })
				}
				if a.Allowed {
					t.Errorf("request %d passed before the rules were known", early)
				}
			case a.Allowed:
				passed++
			default:
				limited = byTheLimit(a.Mode)
			}
			return limited
		})
		if early < 20 || passed > 5 {
			t.Errorf("%d were asked early; then %d passed of the region's 5", early, passed)
		}
	})
}

// TestLimitsHoldAtOnceAfterARestart: with a state file and no coordinator the first request is
// decided by the rules.
func TestLimitsHoldAtOnceAfterARestart(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: []\nblacklist: [k]\n")
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state")
		_, stop := startLive(t, c)
		stop()
		l.set(func() { l.down = true })
		d, _ := start(t, c)
		for way, n := range everyWay(t, d, 1) {
			if n > 0 && !strings.HasPrefix(way, "ShouldRateLimit") { // which names no API key
				t.Errorf("%s: %d passed", way, n)
			}
		}
		if a := check(t, d, "k"); a.Mode != modes.BlockList || readyz(t, d) != http.StatusOK {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
	})
}

// TestNothingPassesByADamagedStateFile: while no coordinator answers.
func TestNothingPassesByADamagedStateFile(t *testing.T) {
	l := newLeader(t, fmt.Sprintf(slowRule, 10))
	c := testConfig(l.address())
	c.StateFile = filepath.Join(t.TempDir(), "state")
	_, stop := startLive(t, c)
	stop()
	l.set(func() { l.down = true })
	good, err := os.ReadFile(c.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "cut off": good[:len(good)/2], "cut off at its end": good[:len(good)-3],
		"no rules in it":      bytes.Replace(good, []byte(`"rules"`), []byte(`"rulez"`), 1),
		"a limit of its own":  bytes.Replace(good, []byte("capacity: 10"), []byte("capacity: 90"), 1),
		"a version of none":   bytes.Replace(good, []byte("\"version\": 1,\n  \"yaml\""), []byte("\"version\": 0,\n  \"yaml\""), 1),
		"said to be of none":  summed(t, bytes.Replace(good, []byte("\"version\": 1,\n  \"yaml\""), []byte("\"version\": 0,\n  \"yaml\""), 1)),
		"zeros":               make([]byte, len(good)),
		"of an older version": withoutRulesInIt(good),
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				if bytes.Equal(content, good) {
					t.Fatal("nothing is damaged")
				}
				c := c
				c.StateFile = filepath.Join(t.TempDir(), "state")
				if err := os.WriteFile(c.StateFile, content, 0o600); err != nil {
					t.Fatal(err)
				}
				d, _ := start(t, c)
				for range 20 {
					if a := check(t, d, "k"); a.Allowed || a.Mode != modes.NoRulesYet {
						t.Fatalf("%+v", a)
					}
				}
			})
		})
	}
}

// withoutRulesInIt is a state file that an older version wrote before the first rules came.
func withoutRulesInIt(good []byte) []byte {
	var s map[string]any
	if err := json.Unmarshal(good, &s); err != nil {
		panic(err)
	}
	delete(s, "sum")
	s["rules"] = map[string]any{"version": 0, "yaml": "", "numbers": nil}
	return []byte(mustJSON(s))
}

// summed is a state file's text with the checksum that belongs to it.
func summed(t *testing.T, text []byte) []byte {
	t.Helper()
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(text, []byte(s.Sum), []byte(stateSum(text, s.Sum)), 1)
}

// TestStateFileOfANewerVersion ends the start, also where the path is the default: to go on without
// it would forget a floor.
func TestStateFileOfANewerVersion(t *testing.T) {
	for _, byDefault := range []bool{false, true} {
		c := testConfig("127.0.0.1:1")
		c.StateFile, c.StateFileIsDefault = filepath.Join(t.TempDir(), "state"), byDefault
		if err := os.WriteFile(c.StateFile, []byte(`{"format":99,"region":"us"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), "--state-file "+c.StateFile) || !strings.Contains(err.Error(), "format 99") || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("default %v: %v", byDefault, err)
		}
		if _, err := os.Stat(c.StateFile); err != nil {
			t.Errorf("the file is gone: %v", err)
		}
	}
}

// TestDefaultStateFileThatCannotBeWritten is a warning that names the flag; a chosen one is an error.
func TestDefaultStateFileThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := testConfig("127.0.0.1:1")
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.StateFile = filepath.Join(file, "state") // below a file
	if _, err := openState(&c, c.Logger); err == nil {
		t.Error("a chosen file that cannot be written is no error")
	}
	c.StateFileIsDefault = true
	if s, err := openState(&c, c.Logger); s != nil || err != nil || c.StateFile != "" {
		t.Errorf("%v, %v, %q", s, err, c.StateFile)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "--state-file") || !strings.Contains(text, file) {
		t.Errorf("log: %s", text)
	}
}

// TestNoStateFile: "none" is no file of that name.
func TestNoStateFile(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		t.Chdir(t.TempDir())
		l := newLeader(t, oneRule)
		for _, none := range []string{"", NoStateFile} {
			c := testConfig(l.address())
			c.StateFile = none
			_, stop := startLive(t, c)
			stop()
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("%q left %v, %v", none, left, err)
			}
		}
	})
}

// TestDefaultStateFile: a path for each region and port, in the folder that the system names.
func TestDefaultStateFile(t *testing.T) {
	for _, c := range []struct {
		region, listen string
		environ        map[string]string
		want           string // or a part of the error
	}{
		{"us", "127.0.0.1:7500", map[string]string{"HOME": "/h"}, "/h/.local/state/aliquot/regional-us-7500.json"},
		{"us", "127.0.0.1:7510", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/aliquot/regional-us-7510.json"},
		{"us", ":7500", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/aliquot/regional-us-7500.json"},
		{"eu", "[::1]:7500", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/x", "STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a/regional-eu-7500.json"},
		{"us", "unix:///run/aliquot/us.sock", map[string]string{"HOME": "/h"}, "/h/.local/state/aliquot/regional-us-run-aliquot-us.sock.json"},
		{"us", "127.0.0.1:7500", nil, "HOME"},
		{"us", "127.0.0.1:0", map[string]string{"HOME": "/h"}, "port 0"},
		{"us", "nonsense", map[string]string{"HOME": "/h"}, "missing port"},
	} {
		got, err := DefaultStateFile(c.region, c.listen, func(name string) string { return c.environ[name] })
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s at %s of %v: %q, want %q", c.region, c.listen, c.environ, got, c.want)
		}
	}
}

// reasonOf is why a daemon is not ready.
func reasonOf(t *testing.T, d *Daemon) string {
	t.Helper()
	resp, err := clientOf(d).Get("http://" + d.OpsAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var r readiness
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r.Reason
}
