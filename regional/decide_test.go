package regional

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
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

// stores runs a test on both stores.
func stores(t *testing.T, test func(t *testing.T, redis string)) {
	t.Run("memory", func(t *testing.T) { test(t, MemoryStore) })
	t.Run("redis", func(t *testing.T) { test(t, startRedis(t).url()) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.StartCluster(t, 3).URL()) })
}

// TestDecisions counts to the last token, so nothing of it is out when a machine is slow. What
// went wrong where the store missed a deadline is tried again, with another daemon and others
// that ask.
func TestDecisions(t *testing.T) {
	t.Parallel()
	exact := strings.Replace(manyRules, "{enforcement: strict}", "{enforcement: strict, local_cache: false}", 1)
	stores(t, func(t *testing.T, redis string) {
		for try := 0; ; try++ {
			c := testConfig(newLeader(t, exact).address())
			c.Redis = redis
			d, stop := startLive(t, c)
			wrong := decisions(t, d, strconv.Itoa(try))
			if len(wrong) == 0 {
				return
			}
			if try == mostTries || !missedDeadlines(t)(d) {
				t.Fatal(strings.Join(wrong, "\n"))
			}
			stop()
		}
	})
}

// decisions tells what is wrong about those of a daemon that has decided nothing, for clients
// of a number.
func decisions(t *testing.T, d *Daemon, number string) (wrong []string) {
	t.Helper()
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	if n := burst(t, d, "alone"+number); n != 20 {
		fail("a region alone enforces its floor: %d passed, half of 40 is 20", n)
	}

	if a := check(t, d, "in_1"); !a.Allowed || a.Mode != modes.AllowList {
		fail("allow list: %+v", a)
	}
	if a := check(t, d, "bad_1"); a.Allowed || !a.Never || a.Mode != modes.BlockList {
		fail("block list: %+v", a)
	}

	// All or nothing, and the strictest heads.
	both := fmt.Sprintf(`{"attributes":{"api_key":"both%s","method":"POST"}}`, number)
	for i := range 5 {
		a := post(t, d, both)
		if !a.Allowed || a.RuleID != "r1" || a.Remaining != int64(4-i) || len(a.Limits) != 2 {
			fail("both rules, check %d: %+v", i, a)
		}
	}
	a := post(t, d, both)
	if a.Allowed || a.RuleID != "r1" || len(a.Limits) != 2 || !a.Limits[0].Allowed || a.Limits[1].Allowed || a.RetryAfter == "0s" {
		fail("one rule denies: %+v", a)
	}
	if a := check(t, d, "both"+number); a.Remaining != 14 {
		fail("the denied request cost r0 something: %d left, want 14", a.Remaining)
	}

	for range 3 {
		a = post(t, d, fmt.Sprintf(`{"attributes":{"api_key":"sh%s","trial":"yes"}}`, number))
	}
	if !a.Allowed || a.RuleID != "r0" || a.Remaining != 17 || len(a.Limits) != 2 || a.Limits[1].Allowed {
		fail("shadow: %+v", a)
	}
	if !strings.Contains(a.Reason, "r2 would have denied") {
		fail("shadow: reason %q", a.Reason)
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
			fail("no %s in\n%s", want, text)
		}
	}
	return wrong
}

func scrape(t *testing.T, d *Daemon) string {
	t.Helper()
	resp, err := http.Get("http://" + d.OpsAddr() + "/metrics")
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
	resp, err := http.Get("http://" + d.OpsAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestFirstBootWithoutCoordinators(t *testing.T) {
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
}

func TestCoordinatorsAreTriedInTurn(t *testing.T) {
	l := newLeader(t, oneRule)
	startLive(t, testConfig("127.0.0.1:1", l.address(), "127.0.0.1:2"))
}

func TestRulesReload(t *testing.T) {
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
}

func TestAnUndeclaredRegionIsRefusedAndDenies(t *testing.T) {
	l := newLeader(t, oneRule)
	l.set(func() { l.refuse = connect.NewError(connect.CodePermissionDenied, io.ErrUnexpectedEOF) })
	d, _ := start(t, testConfig(l.address()))
	eventually(t, "refusals are counted", func() bool {
		return strings.Contains(scrape(t, d), `aliquot_reports_total{region="us",result="refused"}`)
	})
	if a := check(t, d, "k"); a.Allowed || a.Mode != modes.NoRulesYet {
		t.Errorf("%+v", a)
	}
}

// TestPhases: a share is enforced while the lease holds, then no more than the
// floor, then the floor from empty.
func TestPhases(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, redis string) {
		l := newLeader(t, "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    key: [api_key]\n    params: {capacity: 1000, refill_rate: 50}\n")
		l.set(func() { l.lease = 3 * time.Second })
		c := testConfig(l.address())
		c.Redis = redis
		stood := stalls(t)
		d, _ := startLive(t, c)
		began := time.Now()
		n := burst(t, d, "k")
		cold := time.Since(began)
		if n < 500 && !missedDeadlines(t)(d) || float64(n) > 501+25*cold.Seconds() {
			t.Fatalf("cold: %d passed in %v, the floor holds 500 and refills 25/s", n, cold)
		}
		l.lend(l.asked(), budget.Unit/10*9)
		// Grown empty: all that passes was earned, at 45/s since it was cold, however late an
		// answer is that says so.
		most := func() float64 { return 502 + 25*cold.Seconds() + 45*(time.Since(began)-cold).Seconds() }
		if n += burst(t, d, "k"); float64(n) > most() {
			t.Errorf("live: %d passed in %v, %v of it cold, at no more than 45/s: a share that grows arrives empty", n, time.Since(began), cold)
		}
		empty := time.Now()
		eventually(t, "600 ms go by", func() bool { return time.Since(empty) > 600*time.Millisecond })
		if a := check(t, d, "k"); a.Remaining < 25 && !missedDeadlines(t)(d) && l.sessions() == 1 || float64(n)+float64(a.Remaining) > most() {
			t.Errorf("live: %d left after %v at 45/s, and %d had passed in %v, %v of it cold", a.Remaining, time.Since(empty), n, time.Since(began), cold)
		}
		if stood() < time.Second { // of three
			undisturbed(t, d, l)
		}
		l.set(func() { l.down = true })
		phase(t, d, budget.Limbo)
		if a := check(t, d, "k"); a.Mode != modes.Store && !missedDeadlines(t)(d) {
			t.Errorf("limbo: %+v", a)
		}
		phase(t, d, budget.CutOff)
		began = time.Now()
		n = burst(t, d, "k")
		if most := int(25*time.Since(began).Seconds()) + 250; n > most {
			t.Errorf("cut off: %d passed, at most %d had been earned", n, most)
		}
		l.set(func() { l.down = false })
		phase(t, d, budget.Live)
	})
}

// TestShareShrinksAndReleases: tokens of a share that shrinks are reported.
func TestShareShrinksAndReleases(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, redis string) {
		l := newLeader(t, "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    key: [api_key]\n    params: {capacity: 1000, refill_rate: 0.001}\n")
		c := testConfig(l.address())
		c.Redis = redis
		d, _ := startLive(t, c)
		// A share is lost with its session, which a busy machine may end: then another key.
		for try, told := 0, false; !told; try++ {
			client := fmt.Sprint("k", try)
			for range 300 {
				check(t, d, client)
			}
			var released int64
			if released, told = l.shrink(keyOf(d, client), budget.Unit/4); !told {
				continue
			}
			// 200 of the floor's 500 were left: half goes. A check that missed a deadline may
			// not have been charged, or twice.
			if (released < 99e6 || released > 101e6) && !missedDeadlines(t)(d) {
				t.Errorf("%d micro-tokens were released, want about 100 million", released)
			}
			if a := check(t, d, client); (a.Remaining < 98 || a.Remaining > 100) && !missedDeadlines(t)(d) {
				t.Errorf("%d left, want about 99", a.Remaining)
			}
		}
	})
}

// shrink gives a smaller share, and waits for the report of what that released; told is
// false if the session ended before.
func (l *leader) shrink(key *aliquotv1.KeyId, share int32) (released int64, told bool) {
	l.t.Helper()
	var session uint64
	l.set(func() { session = l.session })
	l.give(key, share, share)
	eventually(l.t, "the release is reported", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		given := &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter}
		for _, r := range l.reports {
			for _, k := range r.GetKeys() {
				if !told && proto.Equal(k.GetGen(), given) {
					released, told = k.GetReleasedMicro(), true
				}
			}
		}
		return told || l.session != session
	})
	return released, told
}
