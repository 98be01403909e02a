package observe

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/e2e"
	"aliquot/limit"
	"aliquot/lua"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(e2e.RunTests(m, module, &bin)) }

const (
	// alertWithin bounds the time from a fault to its alert here, and back: a lease
	// (10 s), the shortened wait, and a machine however slow it is.
	alertWithin = 5 * time.Minute
	// dataWithin bounds the wait for the first data of a query.
	dataWithin = alertWithin
)

// TestALiveClusterIsSeen runs three regions under load, breaks them, and looks at
// what a person would see: alerts that fire and resolve, then every panel.
func TestALiveClusterIsSeen(t *testing.T) {
	cluster, err := e2e.Start(t.Context(), bin, t.TempDir(), e2e.Setup{})
	if cluster != nil {
		t.Cleanup(cluster.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := startPrometheus(t, targetsOf(cluster))
	applyRules(t, cluster, p)
	began := time.Now()
	l := startLoad(t, cluster)
	until(t, alertWithin, "the limit is in use", func() error {
		used, err := p.query(`max(aliquot_global_limit_utilisation_ratio{rule="strict"})`)
		if err == nil && used[0].Value.value < .5 {
			err = fmt.Errorf("%v of it", used[0].Value.value)
		}
		return err
	})
	p.eventually(t, "all is quiet", nil, expected)

	for _, fault := range []struct {
		name string
		run  func(*testing.T, *e2e.Cluster, *prometheus)
	}{{"a Redis and a regional daemon fail", regionsFail}, {"two coordinators fail", coordinatorsFail}} {
		if !t.Run(fault.name, func(t *testing.T) { fault.run(t, cluster, p) }) {
			return // what follows needs all of it up again
		}
	}
	t.Run("elastic", func(t *testing.T) { extraBurstIsSeen(t, cluster, p) })
	t.Run("metrics", func(t *testing.T) { metricsAreSound(t, cluster) })
	t.Run("dashboard", func(t *testing.T) { panelsHaveData(t, p, began) })
	t.Run("budgets add up", func(t *testing.T) { budgetsAddUp(t, p, began) })
	t.Run("promise", func(t *testing.T) { promiseIsSeen(t, p, began) })
	t.Run("a Redis that others write to", func(t *testing.T) { breachAlerts(t, cluster, p) })
	if l.allowed.Load() < 100 || l.denied.Load() < 100 {
		t.Errorf("%d checks allowed, %d denied: not the load that was meant", l.allowed.Load(), l.denied.Load())
	}
}

// targetsOf maps the targets of deploy/prometheus/prometheus.yml to the cluster.
func targetsOf(cluster *e2e.Cluster) map[string]string {
	out := map[string]string{}
	for i, c := range cluster.Coordinators {
		out[fmt.Sprintf("coordinator-%d:7403", i+1)] = c.Ops()
	}
	for _, r := range cluster.Regions {
		out["regional-"+r.Name+":7503"] = r.Ops()
	}
	return out
}

// eventually waits until all that are named fire, and what others says of each alert
// that fires is true.
func (p *prometheus) eventually(t *testing.T, what string, names []string, others func(string) bool) {
	t.Helper()
	until(t, alertWithin, what, func() error {
		firing, err := p.firing()
		if err != nil {
			return err
		}
		for _, name := range names {
			if !firing[name] {
				return fmt.Errorf("%s does not fire; %v do", name, firing)
			}
		}
		for name := range firing {
			if !others(name) {
				return fmt.Errorf("%s fires", name)
			}
		}
		return nil
	})
}

// expected are the alerts that may fire in a run without faults: the rules of this load
// deny on purpose, that a rule failed open is told for a minute, and the machine has
// other things to do than to answer for a Redis within 5 ms.
func expected(firing string) bool {
	name, _, _ := strings.Cut(firing, " ")
	return slices.Contains([]string{"AliquotRejectionsHigh", "AliquotFailOpen", "AliquotStoreSlow"}, name)
}

// regionsFail: each fault fires its alert, of its region and of no other.
func regionsFail(t *testing.T, cluster *e2e.Cluster, p *prometheus) {
	europe, asia := cluster.Redis[1], cluster.Regions[2]
	if err := errors.Join(europe.Pause(), asia.Kill9()); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "the faults alert", []string{
		"AliquotStoreDegraded eu-west", "AliquotFailOpen open", "AliquotRegionSilent ap-south", "AliquotRegionalDown ap-south",
	}, func(firing string) bool {
		switch name, of, _ := strings.Cut(firing, " "); name {
		case "AliquotStoreDegraded":
			return of == "" || of == "eu-west"
		case "AliquotRegionalDown":
			return of == "" || of == "ap-south"
		case "AliquotRegionSilent": // without its Redis a region cannot acknowledge anything
			return of != "us-east"
		case "AliquotNoLeader", "AliquotCoordinatorDown", "AliquotBoundExceeded", "AliquotRulesRefused":
			return false
		}
		return true
	})
	if err := errors.Join(europe.Resume(), asia.Start()); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "the alerts resolve", nil, expected)
}

func coordinatorsFail(t *testing.T, cluster *e2e.Cluster, p *prometheus) {
	var leader *e2e.Coordinator
	until(t, alertWithin, "one leads", func() (err error) { leader, err = cluster.Leader(t.Context()); return err })
	other := cluster.Coordinators[0]
	if other == leader {
		other = cluster.Coordinators[1]
	}
	if err := errors.Join(leader.Kill9(), other.Kill9()); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "nobody in charge alerts", []string{
		"AliquotNoLeader", "AliquotCoordinatorDown", "AliquotLeaseNearEnd us-east", "AliquotLeaseNearEnd eu-west", "AliquotLeaseNearEnd ap-south",
	}, func(firing string) bool { return firing != "AliquotBoundExceeded" && firing != "AliquotRegionalDown" })
	if err := errors.Join(leader.Start(), other.Start()); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "the alerts resolve", []string{"AliquotRejectionsHigh strict"}, expected)
}

// sample takes a line of /metrics apart: name, labels, value.
var sample = regexp.MustCompile(`^(aliquot_[a-z_]+)(?:\{(.*)\})? (\S+)$`)

// label finds the labels in it.
var label = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// metricsAreSound: every daemon's numbers are numbers, its labels come from the rules
// and the regions, and what the dashboard and the alerts name exists.
func metricsAreSound(t *testing.T, cluster *e2e.Cluster) {
	var targets []string
	for _, address := range targetsOf(cluster) {
		targets = append(targets, address)
	}
	exist := map[string]bool{}
	for _, address := range targets {
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			m := sample.FindStringSubmatch(lines.Text())
			if m == nil {
				continue
			}
			exist[m[1]] = true
			if v, err := strconv.ParseFloat(m[3], 64); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %s", address, lines.Text())
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !configured(l[1], l[2]) {
					t.Errorf("%s: the label %s in %s", address, l[0], lines.Text())
				}
			}
		}
	}
	var exprs []string
	for _, a := range alerts(t) {
		exprs = append(exprs, a.Expr)
	}
	for _, panel := range globalUsage(t).Panels {
		for _, q := range panel.Targets {
			exprs = append(exprs, q.Expr)
		}
	}
	for _, name := range metricName.FindAllString(strings.Join(exprs, "\n"), -1) {
		if !exist[name] {
			t.Errorf("no daemon exports %s", name)
		}
	}
}

// configured tells whether a label's value comes from what is configured.
func configured(name, value string) bool {
	switch name {
	case "rule":
		return value == "" || slices.Contains(ruleIDs, value)
	case "region":
		return slices.Contains([]string{"us-east", "eu-west", "ap-south"}, value)
	}
	return value != ""
}

// panelsHaveData asks what Grafana would ask, for each target of each panel.
func panelsHaveData(t *testing.T, p *prometheus, since time.Time) {
	targets := 0
	for _, panel := range globalUsage(t).Panels {
		for _, q := range panel.Targets {
			targets++
			expr, err := substituted(q.Expr)
			if err != nil {
				t.Error(err)
				continue
			}
			until(t, dataWithin, panel.Title+" "+q.RefID, func() error {
				_, now := p.query(expr)
				_, ranged := p.queryRange(expr, since)
				return errors.Join(now, ranged)
			})
		}
	}
	if targets < 40 {
		t.Errorf("%d targets; the dashboard has more", targets)
	}
	for variable, label := range map[string]string{"aliquot_limit_refill_tokens_per_second": "rule", "aliquot_region_floor_ratio": "region"} {
		seen, err := p.query("count by (" + label + ") (" + variable + ")")
		if err != nil || len(seen) < 3 {
			t.Errorf("the variable %s has %d values, %v", label, len(seen), err)
		}
	}
}

// budgetsAddUp: the stack of the budgets is the whole limit at every point, with all
// regions in it, and it moves.
func budgetsAddUp(t *testing.T, p *prometheus, since time.Time) {
	var stack []target
	for _, panel := range globalUsage(t).Panels {
		if strings.HasPrefix(panel.Title, "Budgets:") {
			stack = panel.Targets
		}
	}
	sum, series := map[float64]float64{}, 0
	for _, q := range stack {
		expr, err := substituted(q.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := p.queryRange(expr, since)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			series++
			for _, at := range part.Values {
				sum[at.at] += at.value
			}
		}
	}
	if series != 4 || len(sum) < 10 {
		t.Errorf("%d series with %d points, want three regions and the pool", series, len(sum))
	}
	for at, total := range sum {
		if math.Abs(total-1) > 1e-6 {
			t.Errorf("at %v the budgets and the pool sum to %v", at, total)
		}
	}
	moved, err := p.query(`max by (rule) (max_over_time(aliquot_budget_share_ratio{region="us-east",rule="strict"}[10m]) - min_over_time(aliquot_budget_share_ratio{region="us-east",rule="strict"}[10m]))`)
	if err != nil || moved[0].Value.value < .05 {
		t.Errorf("the share of us-east moved by %v, %v", moved, err)
	}
}

// extraBurstIsSeen: what an elastic rule admits beyond its limit is observed. A key
// that takes long to become hot has spent its burst by then, so it is tried again.
func extraBurstIsSeen(t *testing.T, cluster *e2e.Cluster, p *prometheus) {
	n := 0
	until(t, alertWithin, "an extra burst is observed", func() error {
		n++
		burst(t.Context(), cluster, fmt.Sprint("burst-", n))
		seen, err := p.query(`max(aliquot_excess_observed_tokens{rule="elastic"})`)
		if err == nil && seen[0].Value.value < 1 {
			err = fmt.Errorf("%v tokens", seen[0].Value.value)
		}
		return err
	})
}

// promiseIsSeen: what is observed stays within what is promised, also through the
// faults before, and independent rules promise nothing.
func promiseIsSeen(t *testing.T, p *prometheus, since time.Time) {
	for rule, bound := range map[string]float64{"strict": 0, "elastic": 60, "open": 0} {
		for _, q := range []string{`max(aliquot_excess_bound_tokens{rule=%q})`, `max(aliquot_excess_observed_tokens{rule=%q})`} {
			seen, err := p.queryRange(fmt.Sprintf(q, rule), since)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range seen[0].Values {
				if at.value > bound || strings.Contains(q, "bound") && at.value != bound {
					t.Fatalf("%s of rule %s: %v at %v, the bound is %v", q, rule, at.value, at.at, bound)
				}
			}
		}
	}
	broken, err := p.query(`max_over_time(sum(aliquot_bound_violations_total)[10m:1s])`)
	if err != nil || broken[0].Value.value != 0 {
		t.Errorf("promises were broken %v times, %v", broken, err)
	}
	if seen, err := p.query(`aliquot_excess_bound_tokens{rule="independent"}`); !errors.Is(err, errNothing) {
		t.Errorf("a bound for a rule that is not coordinated: %v, %v", seen, err)
	}
	gain, err := p.query(`max_over_time(max(aliquot_global_gain_ratio{rule="strict"})[5m:1s])`)
	if err != nil || gain[0].Value.value < .5 || gain[0].Value.value > 1 {
		t.Errorf("the gain of the strict rule was %v at most, %v; want nearly 1", gain, err)
	}
}

// breachAlerts fills the buckets of one region behind the daemons' backs, which breaks
// the promise for real, and waits for an alert. The log has the evidence,
// once a minute and rule at the most.
func breachAlerts(t *testing.T, cluster *e2e.Cluster, p *prometheus) {
	store := redis.NewClient(&redis.Options{Addr: cluster.Regions[0].Redis})
	defer store.Close()
	began := time.Now()
	until(t, alertWithin, "the breach alerts", func() error {
		keys, err := store.Keys(t.Context(), "aq:{*}:*:b").Result()
		for _, key := range keys {
			text, gone := store.Get(t.Context(), key).Result()
			record, ok := lua.ParseRecord(limit.TokenBucket, text)
			if gone != nil || !ok || !record.Hot {
				continue
			}
			record.Tokens = record.Share.Cap
			err = errors.Join(err, store.Set(t.Context(), key, lua.FormatRecord(limit.TokenBucket, record), redis.KeepTTL).Err())
		}
		firing, asked := p.firing()
		if err = errors.Join(err, asked); err == nil && !firing["AliquotBoundExceeded strict"] {
			err = fmt.Errorf("%v fire", firing)
		}
		return err
	})
	lines := 0
	for _, c := range cluster.Coordinators {
		lines += strings.Count(c.Tail(), "the promise of a rule was broken")
	}
	if took := time.Since(began); lines < 1 || lines > 2*(1+int(took.Minutes())) { // of two rules, one a minute
		t.Errorf("%d lines of evidence in the coordinators' logs in %v", lines, took)
	}
	for _, rule := range []string{"open", "independent"} {
		if firing, err := p.firing(); err != nil || firing["AliquotBoundExceeded "+rule] {
			t.Errorf("rule %s, which nobody asks for more than it has, alerts: %v, %v", rule, firing, err)
		}
	}
}
