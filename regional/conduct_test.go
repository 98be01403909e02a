package regional

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"aliquot/internal/httpanswer"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/internal/testlog"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

const watchedRules = `
defaults: {enforcement: strict, local_cache: false, params: {capacity: 40, refill_rate: 0.001}}
rules:
  - id: r0
    cool_down: {after: 5, most: 1h}
    auto_block: {after: 40, within: 1h, for: 2h}
  - id: r1
    match: {attributes: {only: shadow}}
    shadow: true
    params: {capacity: 2, refill_rate: 0.001}
    cool_down: {after: 1}
  - id: r2
    match: {attributes: {method: POST}}
    key: [api_key, method]
    params: {capacity: 2, refill_rate: 0.001}
whitelist: ["in_*"]
`

// hotKeyOf is a key of /hotkeys, and heldOf a client of /held.
type (
	hotKeyOf struct {
		Rule   string  `json:"rule"`
		Key    string  `json:"key_hash"`
		Checks float64 `json:"checks_per_second"`
		Denied float64 `json:"denied_per_second"`
		Values string  `json:"values"`
	}
	heldOf struct {
		Rule  string    `json:"rule"`
		Key   string    `json:"key_hash"`
		State string    `json:"state"`
		Until time.Time `json:"until"`
	}
)

// opsJSON reads a page of the ops listener.
func opsJSON(t *testing.T, d *Daemon, path string, into any) int {
	t.Helper()
	resp, err := clientOf(d).Get("http://" + d.OpsAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

// deny is a check that is denied.
func deny(t *testing.T, d *Daemon, apiKey string) answerOf {
	t.Helper()
	a := check(t, d, apiKey)
	if a.Allowed {
		t.Fatalf("%+v", a)
	}
	return a
}

func TestClientsThatDoNotWait(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var log testlog.Buffer
		l := newLeader(t, watchedRules)
		c := testConfig(l.address())
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d, _ := startLive(t, c)

		if n := burst(t, d, "rude"); n != 20 {
			t.Fatalf("%d passed", n)
		}
		for i := range 5 { // before their time
			if a := deny(t, d, "rude"); a.Mode != modes.Store {
				t.Fatalf("denial %d: %+v", i, a)
			}
		}
		a := deny(t, d, "rude")
		if a.Never || a.Mode != modes.Local || !strings.HasPrefix(a.Reason, "cool-down of rule r0") || a.RetryAfter == "0s" || a.Limit != 40 || len(a.Limits) != 1 ||
			a.Problem != httpanswer.AbnormalUsage {
			t.Fatalf("%+v", a)
		}
		if a := post(t, d, `{"attributes":{"api_key":"rude","method":"POST"}}`); a.Allowed || a.RuleID != "r0" || len(a.Limits) != 1 {
			t.Errorf("another limit was asked as well: %+v", a)
		}
		if a := check(t, d, "polite"); !a.Allowed || a.Mode != modes.Store {
			t.Errorf("another client: %+v", a)
		}
		var held struct {
			Held    int
			Clients []heldOf
		}
		if opsJSON(t, d, "/held", &held); held.Held != 1 || len(held.Clients) != 1 || held.Clients[0].State != "cooling" || held.Clients[0].Rule != "r0" ||
			held.Clients[0].Key != charge.HashText([16]byte(keyOf(d, "rude").GetHash())) || time.Until(held.Clients[0].Until) <= 0 {
			t.Errorf("%+v", held)
		}

		// A block, once it has been denied 40 times in all: 6 by its limit, 2 since.
		for i := range 31 {
			if a := deny(t, d, "rude"); a.Mode != modes.Local {
				t.Fatalf("denial %d in the cool-down: %+v", i, a)
			}
		}
		for range 3 {
			if a := deny(t, d, "rude"); a.Mode != modes.BlockList || !strings.HasPrefix(a.Reason, "blocked in this region until 2") || a.Problem != httpanswer.AbnormalUsage {
				t.Fatalf("%+v", a)
			}
		}
		if opsJSON(t, d, "/held", &held); held.Held != 1 || held.Clients[0].State != "blocked" {
			t.Errorf("%+v", held)
		}
		if n := strings.Count(log.String(), "a client is blocked"); n != 1 || strings.Contains(log.String(), "rude") {
			t.Errorf("the block is told of %d times:\n%s", n, log.String())
		}
		text := scrape(t, d)
		for _, want := range []string{
			`aliquot_cool_downs_total{region="us",rule="r0"} 1`, `aliquot_auto_blocks_total{region="us",rule="r0"} 1`,
			`aliquot_clients_held_back{region="us"} 1`, `aliquot_clients_forgotten_total{region="us"} 0`,
			`aliquot_decisions_total{mode="block_list",outcome="denied",region="us",rule="r0"} 3`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}

		// The whitelist is stronger, and a rule that states it no more ends it.
		if a := check(t, d, "in_rude"); !a.Allowed {
			t.Errorf("%+v", a)
		}
		l.setRules(2, strings.NewReplacer("    cool_down: {after: 5, most: 1h}\n", "", "    auto_block: {after: 40, within: 1h, for: 2h}\n", "").Replace(watchedRules))
		eventually(t, "the new rules decide", func() bool { return check(t, d, "rude").Mode == modes.Store })
	})
}

// Where memory decides, denials from memory count like the store's, a client is held back
// before memory is asked, and nothing of a request that is denied so is spent.
func TestClientsThatDoNotWaitForMemory(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `
defaults: {enforcement: strict, placement: split}
rules:
  - id: r0
    params: {capacity: 400, refill_rate: 0.001}
    cool_down: {after: 50, most: 1h}
`).address()))
		exactly(t, "half of 400", burst(t, d, "rude"), 200, d)
		byMode := map[string]int{}
		for range 50 {
			a := deny(t, d, "rude")
			if byMode[a.Mode]++; strings.HasPrefix(a.Reason, "cool-down") {
				t.Fatalf("after %v: %+v", byMode, a)
			}
		}
		if byMode[modes.Local] == 0 {
			t.Errorf("nothing was denied from memory: %v", byMode)
		}
		for range 20 {
			if a := deny(t, d, "rude"); a.Mode != modes.Local || !strings.HasPrefix(a.Reason, "cool-down of rule r0") {
				t.Fatalf("%+v", a)
			}
		}
		if text := scrape(t, d); !strings.Contains(text, `aliquot_cool_downs_total{region="us",rule="r0"} 1`) {
			t.Error(text)
		}
	})
}

func TestCoolDownOfRulesThatOnlyWatch(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, watchedRules).address()))
		for i := range 12 {
			if a := post(t, d, `{"attributes":{"api_key":"sh","only":"shadow"}}`); !a.Allowed {
				t.Fatalf("request %d: %+v", i, a)
			}
		}
	})
}

// A request that another rule denied is no offence at a rule that would have let it pass,
// and neither is a look at it.
func TestOffencesAreTheLimitsOwn(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, watchedRules).address()))
		both := `{"attributes":{"api_key":"k","method":"POST"}}`
		for range 15 {
			post(t, d, both)
		}
		if a := check(t, d, "k"); !a.Allowed {
			t.Errorf("%+v", a)
		}
	})
}

// Reservations and explanations go by it too; an explanation is no offence.
func TestHeldBackEverywhere(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, watchedRules).address()))
		burst(t, d, "k")
		explain := func() charge.Decision {
			r := charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "k"}), Cost: 1_000_000}
			decision, err := d.limiter.Peek(t.Context(), d.policies.Load(), &r)
			if err != nil {
				t.Fatal(err)
			}
			return decision
		}
		for range 20 {
			if e := explain(); len(e.Groups) != 1 {
				t.Fatalf("held back by looking: %+v", e)
			}
		}
		for range 6 {
			deny(t, d, "k")
		}
		e := explain()
		if len(e.Groups) != 0 || len(e.Never) != 1 || e.Never[0].Held != penalty.Cooling {
			t.Fatalf("%+v", e)
		}
		if basis := e.Never[0].WhyHeld(); !strings.HasPrefix(basis, "cool-down of rule r0") {
			t.Error(basis)
		}
		out, err := d.limiter.Reserve(t.Context(), &engine.Reserving{Request: charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "k"}), Cost: 1_000_000}, ID: "1", TTL: time.Second})
		if err != nil || out.Made || len(out.Decision.Never) != 1 {
			t.Errorf("%+v %v", out, err)
		}
	})
}

func TestHotKeysPage(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var log testlog.Buffer
		l := newLeader(t, watchedRules)
		c := testConfig(l.address())
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d, _ := startLive(t, c)
		for i := range 30 {
			check(t, d, "often")
			if i%3 == 0 {
				check(t, d, "in_never_counted")
				check(t, d, "seldom")
			}
		}
		var page struct {
			Region string
			Keys   []hotKeyOf
		}
		if opsJSON(t, d, "/hotkeys", &page); page.Region != "us" || len(page.Keys) != 2 || page.Keys[0].Rule != "r0" ||
			page.Keys[0].Key != charge.HashText([16]byte(keyOf(d, "often").GetHash())) || page.Keys[0].Checks <= page.Keys[1].Checks || page.Keys[0].Denied <= 0 {
			t.Errorf("%+v", page)
		}
		if opsJSON(t, d, "/hotkeys?n=1", &page); len(page.Keys) != 1 {
			t.Errorf("%+v", page)
		}
		for _, n := range []string{"0", "1001", "x"} {
			if status := opsJSON(t, d, "/hotkeys?n="+n, &page); status != http.StatusBadRequest {
				t.Errorf("n=%s: %d", n, status)
			}
		}
		logged := map[budget.KeyID]time.Time{}
		now := time.Now()
		d.keys.LogHot(d.policies.Load(), 0.01, logged, now)
		d.keys.LogHot(d.policies.Load(), 0.01, logged, now.Add(time.Second))
		if n := strings.Count(log.String(), "a key is checked very often"); n != 2 || strings.Contains(log.String(), "often\"") && strings.Contains(log.String(), "api_key") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		d.keys.LogHot(d.policies.Load(), 0.01, logged, now.Add(time.Minute))
		if n := strings.Count(log.String(), "a key is checked very often"); n != 4 {
			t.Errorf("%d lines a minute later", n)
		}
	})
}
