package regional

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua/redistest"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
)

const manyRules = `
defaults: {enforcement: strict}
rules:
  - id: r0
    key: [api_key]
    params: {capacity: 40, refill_rate: 0.001}
  - id: r1
    match: {attributes: {method: POST}}
    key: [api_key]
    params: {capacity: 10, refill_rate: 0.001}
  - id: r2
    match: {attributes: {trial: "yes"}}
    key: [api_key]
    params: {capacity: 4, refill_rate: 0.001}
    shadow: true
  - id: r3
    match: {attributes: {only: shadow}}
    key: []
    params: {capacity: 2, refill_rate: 0.001}
    shadow: true
whitelist: ["in_*"]
blacklist: ["bad_*"]
`

// TestDecisions counts to the last token.
func TestDecisions(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		exact := strings.Replace(manyRules, "{enforcement: strict}", "{enforcement: strict, local_cache: false}", 1)
		d, _ := startLive(t, testConfig(newLeader(t, exact).address()))
		decisions(t, d)
	})
}

// TestDecisionsOnRedis: a Redis and a Redis Cluster decide as the memory store does.
func TestDecisionsOnRedis(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"redis":   func(t *testing.T) string { return startRedis(t).url() },
		"cluster": func(t *testing.T) string { return redistest.StartCluster(t, 3).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(newLeader(t, manyRules).address())
			c.Redis = url(t)
			d, _ := startLive(t, c)
			for i := range 5 {
				exactly(t, "half of 40", burst(t, d, fmt.Sprint("k", i)), 20, d)
			}
			eventually(t, "the strictest of two limits decides", func() bool {
				a := post(t, d, `{"attributes":{"api_key":"both","method":"POST"}}`)
				return byTheLimit(a.Mode) && a.RuleID == "r1" && len(a.Limits) == 2 && !a.Allowed && a.RetryAfter != "0s"
			})
		})
	}
}

// decisions checks those of a daemon in a bubble that has decided nothing.
func decisions(t *testing.T, d *Daemon) {
	t.Helper()
	if n := burst(t, d, "alone"); n != 20 {
		t.Errorf("a region alone enforces its floor: %d passed, half of 40 is 20", n)
	}

	if a := check(t, d, "in_1"); !a.Allowed || a.Mode != modes.AllowList {
		t.Errorf("allow list: %+v", a)
	}
	if a := check(t, d, "bad_1"); a.Allowed || !a.Never || a.Mode != modes.BlockList {
		t.Errorf("block list: %+v", a)
	}

	// All or nothing, and the strictest heads.
	const both = `{"attributes":{"api_key":"both","method":"POST"}}`
	for i := range 5 {
		a := post(t, d, both)
		if !a.Allowed || a.RuleID != "r1" || a.Remaining != int64(4-i) || len(a.Limits) != 2 {
			t.Errorf("both rules, check %d: %+v", i, a)
		}
	}
	a := post(t, d, both)
	if a.Allowed || a.RuleID != "r1" || len(a.Limits) != 2 || !a.Limits[0].Allowed || a.Limits[1].Allowed || a.RetryAfter == "0s" {
		t.Errorf("one rule denies: %+v", a)
	}
	if a := check(t, d, "both"); a.Remaining != 14 {
		t.Errorf("the denied request cost r0 something: %d left, want 14", a.Remaining)
	}

	for range 3 {
		a = post(t, d, `{"attributes":{"api_key":"sh","trial":"yes"}}`)
	}
	if !a.Allowed || a.RuleID != "r0" || a.Remaining != 17 || len(a.Limits) != 2 || a.Limits[1].Allowed {
		t.Errorf("shadow: %+v", a)
	}
	if !strings.Contains(a.Reason, "r2 would have denied") {
		t.Errorf("shadow: reason %q", a.Reason)
	}

	text := scrape(t, d)
	for _, want := range []string{
		`aliquot_decisions_total{mode="allow_list",outcome="allowed",region="us",rule=""} 1`,
		`aliquot_decisions_total{mode="block_list",outcome="denied",region="us",rule=""} 1`,
		`aliquot_decisions_total{mode="store",outcome="shadow_denied",region="us",rule="r2"} 1`,
		"aliquot_decision_duration_seconds_count", `aliquot_store_duration_seconds_count{op="take"}`,
		`aliquot_degraded{reason="lease"} 0`, `aliquot_lease_remaining_seconds{region="us"}`, "aliquot_hot_keys 0",
		`aliquot_reports_total{region="us",result="ok"}`, "aliquot_rules_version 1",
		"aliquot_rules_reload_failures_total 0", "aliquot_build_info{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func scrape(t *testing.T, d *Daemon) string {
	t.Helper()
	resp, err := clientOf(d).Get("http://" + d.OpsAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "aliquot_") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

func readyz(t *testing.T, d *Daemon) int {
	t.Helper()
	resp, err := clientOf(d).Get("http://" + d.OpsAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestFirstBootWithoutCoordinators(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, manyRules)
		l.set(func() { l.down = true })
		d, _ := start(t, testConfig(l.address()))
		a := check(t, d, "k")
		if a.Allowed || a.Mode != modes.NoRulesYet || readyz(t, d) != http.StatusServiceUnavailable {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
		l.set(func() { l.down = false })
		<-d.Ready()
		if a := check(t, d, "k"); a.Mode != modes.Store || readyz(t, d) != http.StatusOK {
			t.Errorf("%+v, ready %d", a, readyz(t, d))
		}
	})
}

func TestCoordinatorsAreTriedInTurn(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, oneRule)
		startLive(t, testConfig("127.0.0.1:1", l.address(), "127.0.0.1:2"))
	})
}

func TestRulesReload(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, oneRule)
		d, _ := startLive(t, testConfig(l.address()))
		l.setRules(2, "rules: nonsense")
		eventually(t, "the refusal is counted", func() bool {
			return strings.Contains(scrape(t, d), "aliquot_rules_reload_failures_total 1")
		})
		if a := check(t, d, "a"); a.Mode != modes.Store || a.RuleID != "r0" {
			t.Errorf("the good rules went: %+v", a)
		}
		l.setRules(3, "defaults: {enforcement: strict}\nrules:\n  - id: r5\n    params: {capacity: 6, refill_rate: 0.001}\n")
		eventually(t, "version 3 in force", func() bool { return check(t, d, "a").RuleID == "r5" })
		eventually(t, "version 3 reported", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.reports[len(l.reports)-1].GetRulesVersion() == 3
		})
		if text := scrape(t, d); strings.Contains(text, `rule="r0"`) || !strings.Contains(text, "aliquot_rules_version 3") {
			t.Errorf("metrics:\n%s", text)
		}
	})
}

func TestAnUndeclaredRegionIsRefusedAndDenies(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, oneRule)
		l.set(func() { l.refuse = connect.NewError(connect.CodePermissionDenied, io.ErrUnexpectedEOF) })
		d, _ := start(t, testConfig(l.address()))
		eventually(t, "refusals are counted", func() bool {
			return strings.Contains(scrape(t, d), `aliquot_reports_total{region="us",result="refused"}`)
		})
		if a := check(t, d, "k"); a.Allowed || a.Mode != modes.NoRulesYet {
			t.Errorf("%+v", a)
		}
	})
}

// TestPhases: a share is enforced while the lease holds, then no more than the
// floor, then the floor from empty.
func TestPhases(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, strictRule(1000, 50, ", local_cache: false"))
		l.set(func() { l.lease = 3 * time.Second })
		d, _ := startLive(t, testConfig(l.address()))
		cold := time.Now()
		if n := burst(t, d, "k"); n != 500 {
			t.Fatalf("cold: %d passed, the floor holds 500", n)
		}
		l.lend(l.asked(), budget.Unit/10*9)
		// Grown empty: all that passes was earned, at 25/s while it was cold, then at 45/s.
		if n, most := burst(t, d, "k"), 1+int(45*time.Since(cold).Seconds()); n > most {
			t.Errorf("live: %d passed after %v: a share that grows arrives empty", n, time.Since(cold))
		}
		<-time.After(time.Second)
		if n := burst(t, d, "k"); n != 44 && n != 45 {
			t.Errorf("live: %d passed after a second at 45/s", n)
		}
		l.set(func() { l.down = true })
		phase(t, d, budget.Limbo)
		limbo := time.Now()
		if a := check(t, d, "k"); a.Mode != modes.Store {
			t.Errorf("limbo: %+v", a)
		}
		burst(t, d, "k")
		phase(t, d, budget.CutOff)
		if n, most := burst(t, d, "k"), 1+int(25*time.Since(limbo).Seconds()); n > most {
			t.Errorf("cut off: %d passed, %d at most were earned at 25/s since limbo", n, most)
		}
		<-time.After(time.Second)
		if n := burst(t, d, "k"); n != 24 && n != 25 {
			t.Errorf("cut off: %d passed after a second at 25/s", n)
		}
		if n := l.sessions(); n != 1 {
			t.Errorf("%d sessions; nothing should have ended the first", n)
		}
		l.set(func() { l.down = false })
		phase(t, d, budget.Live)
	})
}

// TestShareShrinksAndReleases: tokens of a share that shrinks are reported, in proportion to what there is.
func TestShareShrinksAndReleases(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, strictRule(1000, slow, ", local_cache: false"))
		d, _ := startLive(t, testConfig(l.address()))
		for range 300 {
			check(t, d, "k")
		}
		// 200 of the floor's 500 were left: half goes.
		if released := l.shrink(keyOf(d, "k"), budget.Unit/4); limit.Tokens(released)/limit.Token != 100 {
			t.Errorf("%d micro-tokens were released, want 100 million and what was earned", released)
		}
		if a := check(t, d, "k"); a.Remaining != 99 {
			t.Errorf("%d left, want 99", a.Remaining)
		}
	})
}

// shrink gives a smaller share, and waits for the report of what that released.
func (l *leader) shrink(key *aliquotv1.KeyId, share int32) (released int64) {
	l.t.Helper()
	l.give(key, share, share)
	eventually(l.t, "the release is reported", func() (told bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		given := &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter}
		for _, r := range l.reports {
			for _, k := range r.GetKeys() {
				if proto.Equal(k.GetGen(), given) {
					released, told = k.GetReleasedMicro(), true
				}
			}
		}
		return told
	})
	return released
}
