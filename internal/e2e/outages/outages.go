package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
)

// The limits of the plans: a bucket's burst and rate a second, and requests in a window, or slots in use at once.
const (
	outageBurst, outageRate = 60, 20
	outageCount             = 120
	outageWindow            = 10 * time.Second
	slots                   = "concurrency"
	// outageWarmUp is how long the daemons run before the first fault. A daemon without its store does not know
	// what was used of a window before its own start.
	outageWarmUp = 3 * outageWindow
)

// outagePlan is a rule of the cluster of outages.
type outagePlan struct{ algorithm, enforcement string }

func (p outagePlan) name() string {
	return p.enforcement + "-" + strings.ReplaceAll(p.algorithm, "_", "-")
}

// outageAlgorithms are the algorithms of the cluster's plans.
var outageAlgorithms = []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log", slots}

// plans returns a strict and an elastic plan for each algorithm.
func plans(algorithms ...string) (out []outagePlan) {
	for _, a := range algorithms {
		out = append(out, outagePlan{a, "strict"}, outagePlan{a, "elastic"})
	}
	return out
}

// outageRules returns the cluster's rules: e2e.RulesYAML and a rule for each plan.
func outageRules() string {
	var b strings.Builder
	b.WriteString(e2e.RulesYAML)
	for _, p := range plans(outageAlgorithms...) {
		params := fmt.Sprintf("{limit: %d, window: %v}", outageCount, outageWindow)
		if strings.HasSuffix(p.algorithm, "bucket") {
			params = fmt.Sprintf("{capacity: %d, refill_rate: %d}", outageBurst, outageRate)
		}
		fmt.Fprintf(&b, "  - {id: %[1]s, match: {attributes: {plan: %[1]s}}, algorithm: %s, params: %s, enforcement: %s}\n",
			p.name(), p.algorithm, params, p.enforcement)
	}
	return b.String()
}

// Outages runs faults of one region's store on real processes, several times each, and counts the refusals of clients
// below their limits. Each client asks the regions in turn.
type Outages struct {
	// Runs is how many times each fault comes.
	Runs int
	// Regions has the number of regions of each cluster; empty: 1, then 3.
	Regions []int
	// Only selects the faults whose names contain it; empty: all.
	Only string
	// Log gets a line for each run; nil: nothing.
	Log func(format string, args ...any)
}

// outage is a fault of the first region's store, and the clients that ask meanwhile.
type outage struct {
	name    string
	clients func(run int) []client
	// before and after are how long the clients ask without the fault.
	before, after time.Duration
	fault         func(ctx context.Context, l *e2e.Cluster, run int) error
	// prepare changes the cluster before the clients start, and undo restores it after they end; nil: no change.
	prepare func(ctx context.Context, l *e2e.Cluster) (undo func() error, err error)
	// goal is the part of requests below the limit that may be refused.
	goal float64
	// empties: the store's contents change, so reservations are lost.
	empties bool
	// endsDaemon: the region's daemon is down during the fault, so requests fail until a second after it.
	endsDaemon bool
	// first and later are the promised 99th percentiles of a check: in the first second of the fault, and after
	// that second; 0: no promise.
	first, later time.Duration
}

// OutageResult sums up all runs of a fault.
type OutageResult struct {
	Fault       string
	Plan        string // the rule; empty: all of them
	Regions     int
	Enforcement string // empty: both
	Asked       int    // below the limit
	Refused     int    // of these
	Unanswered  int
	// TurnedAway counts answers that told the client to ask again, because the daemon was too busy to decide.
	TurnedAway int
	// Unsettled counts slots that were not given back exactly once, after a fault that keeps the store's contents.
	Unsettled int
	Gain      float64
	// Normal is the longest time from the end of the fault to the last decision without the store, or refusal.
	Normal time.Duration
	// Before, First and Later are the 99th percentiles of a request below the limit in the region: before the
	// fault, in its first second, and after that.
	Before, First, Later time.Duration
	// Refusals describes refusals and failures, and counts each description.
	Refusals map[string]int
	// Goal is the part that may be refused. FirstGoal and LaterGoal bound First and Later; 0: no bound.
	Goal                 float64
	FirstGoal, LaterGoal time.Duration
}

// OK reports whether every promise outside Late held.
func (r *OutageResult) OK() bool {
	return float64(r.Refused) <= r.Goal*float64(r.Asked) && r.Unanswered == 0 && r.Unsettled == 0 && r.Gain <= 1
}

// Late reports whether answers took longer than promised. before: they did before the fault, too, so other processes
// use the machine.
func (r *OutageResult) Late() (late, before bool) {
	late = r.FirstGoal > 0 && r.First > r.FirstGoal || r.LaterGoal > 0 && r.Later > r.LaterGoal
	return late, late && r.Before > laterP99
}

// Run runs the faults of outageTable in a cluster of each size, with the programs in bin and its state in dir. It
// returns two results for each fault: of the strict rules and of the elastic ones.
func (o Outages) Run(ctx context.Context, bin, dir string) (out []OutageResult, err error) {
	return o.run(ctx, bin, dir, outageTable(), func(r *outageRun, all []outagePlan) (out []OutageResult) {
		for _, enforcement := range []string{"strict", "elastic"} {
			of := slices.DeleteFunc(slices.Clone(all), func(p outagePlan) bool { return p.enforcement != enforcement })
			out = append(out, r.result("", enforcement, of))
		}
		return out
	})
}

// run runs outages in a cluster of each size. It starts the clusters and ends them. results sums up one run.
func (o Outages) run(ctx context.Context, bin, dir string, all []outage, results func(*outageRun, []outagePlan) []OutageResult) (out []OutageResult, err error) {
	regions := o.Regions
	if len(regions) == 0 {
		regions = []int{1, 3}
	}
	for _, n := range regions {
		at := filepath.Join(dir, fmt.Sprint(n))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return out, err
		}
		l, err := e2e.Start(ctx, bin, at, e2e.Setup{Regions: e2e.RegionNames[:n], Rules: outageRules()})
		if err == nil {
			e2e.Pause(ctx, outageWarmUp)
			var of []OutageResult
			of, err = o.runIn(ctx, l, all, results)
			out = append(out, of...)
		}
		if l != nil {
			l.Stop()
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// runIn runs outages in one cluster.
func (o Outages) runIn(ctx context.Context, l *e2e.Cluster, all []outage, results func(*outageRun, []outagePlan) []OutageResult) (out []OutageResult, err error) {
	for i := range all {
		if !strings.Contains(all[i].name, o.Only) {
			continue
		}
		var sum []OutageResult
		for run := range o.Runs {
			r, err := all[i].execute(ctx, l, run)
			if err != nil {
				return out, fmt.Errorf("%s: %w", all[i].name, err)
			}
			of := results(r, plans(outageAlgorithms...))
			for j := range of {
				if o.Log != nil {
					o.Log("%d regions, run %d: %s", len(l.Regions), run+1, &of[j])
				}
				if run > 0 {
					sum[j].add(&of[j])
				}
			}
			if run == 0 {
				sum = of
			}
		}
		out = append(out, sum...)
	}
	return out, nil
}

// String returns the result in one line, and a line for each of Refusals.
func (r *OutageResult) String() string {
	text := fmt.Sprintf("%s %s %s: %d of %d refused, %d unanswered, %d turned away, %d unsettled, gain %.4f, normal after %.2f s, p99 %.1f ms before, %.1f in the first second, %.1f later",
		r.Fault, r.Enforcement, r.Plan, r.Refused, r.Asked, r.Unanswered, r.TurnedAway, r.Unsettled, r.Gain, r.Normal.Seconds(), promise.Milliseconds(r.Before), promise.Milliseconds(r.First), promise.Milliseconds(r.Later))
	for _, why := range slices.Sorted(maps.Keys(r.Refusals)) {
		text += fmt.Sprintf("\n    %d: %s", r.Refusals[why], why)
	}
	return text
}

// add adds another run: counts add up, and of gains and times the larger one stays.
func (r *OutageResult) add(o *OutageResult) {
	r.Asked, r.Refused, r.Unanswered = r.Asked+o.Asked, r.Refused+o.Refused, r.Unanswered+o.Unanswered
	r.Unsettled, r.TurnedAway = r.Unsettled+o.Unsettled, r.TurnedAway+o.TurnedAway
	r.Gain, r.Normal = max(r.Gain, o.Gain), max(r.Normal, o.Normal)
	r.Before, r.First, r.Later = max(r.Before, o.Before), max(r.First, o.First), max(r.Later, o.Later)
	for why, n := range o.Refusals {
		r.Refusals[why] += n
	}
}

// outageRun is one run of an outage.
type outageRun struct {
	*traffic
	outage     *outage
	regions    int
	from, ends time.Duration // of the fault, on the traffic's time line
}

// execute runs the outage once, and waits until the region decides by its store again.
func (o *outage) execute(ctx context.Context, l *e2e.Cluster, run int) (r *outageRun, err error) {
	if o.prepare != nil {
		undo, err := o.prepare(ctx, l)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	if err := l.AwaitLeases(ctx); err != nil {
		return nil, err
	}
	t, err := startTraffic(ctx, l, o.clients(run))
	if err != nil {
		return nil, err
	}
	r = &outageRun{traffic: t, outage: o, regions: len(l.Regions)}
	e2e.Pause(ctx, o.before)
	r.from = t.at()
	err = o.fault(ctx, l, run)
	r.ends = t.at()
	if err == nil {
		e2e.Pause(ctx, o.after)
	}
	t.wait()
	if err == nil {
		_, err = l.DegradedSince(ctx, l.Regions[0], time.Now())
	}
	return r, errors.Join(err, ctx.Err())
}

// result sums up the requests of some plans.
func (r *outageRun) result(plan, enforcement string, of []outagePlan) OutageResult {
	out := OutageResult{Fault: r.outage.name, Plan: plan, Enforcement: enforcement, Regions: r.regions, Goal: r.outage.goal, FirstGoal: r.outage.first, LaterGoal: r.outage.later, Refusals: map[string]int{}}
	var before, first, later []time.Duration
	for i := range r.requests {
		q := &r.requests[i]
		if !slices.Contains(of, q.client.plan) {
			continue
		}
		if q.unsettled != nil && !r.outage.empties {
			out.Unsettled++
			out.Refusals["not settled: "+q.unsettled.Error()]++
		}
		out.TurnedAway += q.turnedAway
		switch {
		case q.err != nil && r.outage.endsDaemon && q.answered > r.from && q.sent < r.ends+time.Second:
		case q.err != nil:
			out.Unanswered++
			out.Refusals[fmt.Sprintf("%v, %.1f s after the fault began", q.err, (q.sent-r.from).Seconds())]++
		case !q.client.greedy:
			out.Asked++
			if !q.allowed {
				out.Refused++
				out.Refusals[fmt.Sprintf("%s by %s, %.1f s after the fault began", q.client.plan.name(), q.mode, (q.sent-r.from).Seconds())]++
			}
		}
		if q.sent >= r.ends && (q.degraded() || !q.allowed && !q.client.greedy) {
			out.Normal = max(out.Normal, q.answered-r.ends)
		}
		if q.region != 0 || q.err != nil || q.client.greedy { // a greedy client waits for tokens of other regions
			continue
		}
		switch took := q.answered - q.sent; {
		case q.sent < r.from:
			before = append(before, took)
		case q.sent < r.from+time.Second:
			first = append(first, took)
		default:
			later = append(later, took)
		}
	}
	out.Before, out.First, out.Later = p99(before), p99(first), p99(later)
	for _, p := range of {
		gain := r.gain(p, r.regions)
		if out.Gain = max(out.Gain, gain); gain > 1 {
			out.Refusals[fmt.Sprintf("%s: gain %.4f", p.name(), gain)]++
		}
	}
	return out
}

// p99 returns the 99th percentile; 0 if there are no times.
func p99(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[(len(of)-1)*99/100]
}
