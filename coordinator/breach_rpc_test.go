package coordinator_test

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"aliquot/internal/testlog"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// logBook collects log lines.
type logBook struct{ testlog.Buffer }

// with returns the lines that hold a text.
func (b *logBook) with(text string) (out []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// TestALyingRegionIsFoundOut: a region that says that it admits 1000 a second of a limit
// of 10 breaks the promise; the counter, one log line and the gauges tell.
func TestALyingRegionIsFoundOut(t *testing.T) {
	t.Parallel()
	var log logBook
	cfg := testConfig(t, 1, 1)
	cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	r := start(t, cfg)
	r.waitReady(t)
	r.applyRules(t, someRules)
	metric := func(name string) float64 {
		_, body := r.get(t, "http://"+r.Ops+"/metrics")
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("no %s in the metrics", name)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, rule := range []string{"r1", "all"} {
		if got := metric(`aliquot_bound_violations_total{rule="` + rule + `"}`); got != 0 {
			t.Errorf("%v violations of %s before anybody spent anything", got, rule)
		}
	}

	us := newRegion(r.lease, "us")
	eventually(t, func() string { return errorText(us.sayHello(t.Context())) })
	rule, began := us.hello.GetRules().GetNumbers()["r1"], time.Now()
	const hash = "0123456789abcdef"
	inBackground(t, func(name string, held bool) []*aliquotv1.KeyReport {
		switch {
		case name != "us":
			return nil
		case !held:
			return []*aliquotv1.KeyReport{wants(rule, hash, 0, 0)}
		}
		lie := time.Since(began).Milliseconds()
		return []*aliquotv1.KeyReport{wants(rule, hash, lie, lie)}
	}, us, newRegion(r.lease, "eu"), newRegion(r.lease, "ap"))

	const broken = "the promise of a rule was broken"
	eventually(t, func() string {
		if len(log.with(broken)) == 0 || metric(`aliquot_bound_violations_total{rule="r1"}`) < 5 || metric(`aliquot_excess_observed_tokens{rule="r1"}`) < 100 {
			return "nothing was noticed"
		}
		return ""
	})
	breaches := metric(`aliquot_bound_violations_total{rule="r1"}`)
	if lines := log.with(broken); len(lines) > 1+int(time.Since(began).Minutes()) {
		t.Errorf("%d lines of %v breaches, want one a minute: %v", len(lines), breaches, lines)
	}
	if metric(`aliquot_bound_violations_total{rule="all"}`) != 0 || metric(`aliquot_excess_bound_tokens{rule="r1"}`) != 0 {
		t.Error("the gauges do not agree with the counter")
	}
	list, err := r.budgets.ListBudgets(t.Context(), &aliquotv1.ListBudgetsRequest{})
	if err != nil || len(list.GetBudgets()) != 1 || list.GetBudgets()[0].GetExcessObserved() < 100 {
		t.Errorf("%v, %v", list, err)
	}
	checkEvidence(t, log.with(broken)[0])
}

// checkEvidence: the line has what a person needs who was not there.
func checkEvidence(t *testing.T, line string) {
	var e struct {
		Level, Rule, Key  string
		From, To          time.Time
		Admitted, Allowed float64
		Capacity          float64
		ExcessPromised    float64 `json:"excess_promised"`
		RateWithDrift     float64 `json:"rate_with_drift"`
		Epoch             uint64
		AppliedIndex      uint64 `json:"applied_index"`
		Regions           map[string]struct {
			Admitted, Share float64
			Generation      string
			Silent          bool
		}
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	if e.Level != "ERROR" || e.Rule != "r1" || len(e.Key) != 22 || e.Epoch == 0 || e.AppliedIndex == 0 || e.Capacity != 100 || e.ExcessPromised != 0 {
		t.Errorf("%s", line)
	}
	took := e.To.Sub(e.From).Seconds()
	if took <= 0 || took > patience.Seconds() || e.RateWithDrift < 10.19 || e.RateWithDrift > 10.21 {
		t.Errorf("from %v to %v at %v a second: %s", e.From, e.To, e.RateWithDrift, line)
	}
	if beyond := e.Allowed - 100 - took*e.RateWithDrift; beyond < -.01 || beyond > .01 || e.Admitted < e.Allowed+1 {
		t.Errorf("allowed %v, want 100 and %v x %v; admitted %v", e.Allowed, took, e.RateWithDrift, e.Admitted)
	}
	if len(e.Regions) != 3 || e.Regions["us"].Admitted != e.Admitted || e.Regions["us"].Share <= 0 || e.Regions["us"].Generation == "" {
		t.Errorf("regions %+v", e.Regions)
	}
}

// promiseOf is a bound of a promise by its name.
func promiseOf(p *aliquotv1.Promise, name string) *aliquotv1.Bound {
	for _, b := range p.GetBounds() {
		if b.GetName() == name {
			return b
		}
	}
	return nil
}

// TestPromiseIsPrinted: by every node, with what the leader has measured as soon as it
// has.
func TestPromiseIsPrinted(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	leader, followers := split(t, nodes)
	leader.applyRules(t, someRules)
	ask := &aliquotv1.GetBudgetRequest{RuleId: "r1", Key: map[string]string{"api_key": "k"}}
	res, err := leader.budgets.GetBudget(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	before := res.GetBudget().GetPromise()
	if b := promiseOf(before, "lost_step"); !b.GetUnmeasured() || b.GetValue() != 0 || !strings.Contains(b.GetMeaning(), "not known yet") {
		t.Errorf("before a region was heard: %v", b)
	}
	if b := promiseOf(before, "reserved_now"); b.GetValue() != 10 || !strings.Contains(b.GetMeaning(), "us, eu, ap") {
		t.Errorf("nobody is heard: %v", b)
	}
	for name, want := range map[string]float64{"admitted_burst": 100, "admitted_rate": 10.2, "excess": 0, "lost_saturated": 0, "cut_off_time": 21.22} {
		if b := promiseOf(before, name); b.GetValue() < want-.01 || b.GetValue() > want+.01 || b.GetUnmeasured() || b.GetMeaning() == "" || b.GetUnit() == "" {
			t.Errorf("%s: %v, want %v", name, b, want)
		}
	}

	us := newRegion(leader.lease, "us")
	eventually(t, func() string { return errorText(us.sayHello(t.Context())) })
	rule := us.hello.GetRules().GetNumbers()["r1"]
	inBackground(t, func(name string, held bool) []*aliquotv1.KeyReport {
		if name != "us" || held {
			return nil
		}
		return []*aliquotv1.KeyReport{wants(rule, "0123456789abcdef", 0, 0)}
	}, us, newRegion(leader.lease, "eu"), newRegion(leader.lease, "ap"))
	for _, node := range append(followers, leader) {
		eventually(t, func() string {
			res, err := node.budgets.GetBudget(t.Context(), ask)
			if err != nil {
				return err.Error()
			}
			p := res.GetBudget().GetPromise()
			step, follows := promiseOf(p, "lost_step"), promiseOf(p, "share_follows")
			if step.GetUnmeasured() || follows.GetValue() < .5 || follows.GetValue() > 20 || len(p.GetMeasured().GetRoundTrips()) != 3 ||
				p.GetMeasured().GetCommit().AsDuration() <= 0 || promiseOf(p, "reserved_now") != nil {
				return p.String()
			}
			return ""
		})
		eventually(t, func() string {
			list, err := node.budgets.ListBudgets(t.Context(), &aliquotv1.ListBudgetsRequest{})
			if err != nil {
				return err.Error()
			}
			p := list.GetPromises()["r1"]
			if len(list.GetBudgets()) != 1 || len(list.GetPromises()) != 1 || promiseOf(p, "lost_step").GetUnmeasured() || promiseOf(p, "admitted_burst").GetValue() != 100 {
				return list.String()
			}
			return ""
		})
	}
}
