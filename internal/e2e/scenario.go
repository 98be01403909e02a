package e2e

import (
	"context"
	"fmt"
	"time"

	"aliquot/internal/bench"
)

// Result is one promise with what was seen.
type Result struct {
	Promise string
	Want    string
	Got     string
	OK      bool
}

// Scenario is one story with its promises. It leaves the cluster as it found it: all
// processes running, every region leased.
type Scenario struct {
	Name string
	Run  func(context.Context, *Cluster, Scale) ([]Result, error)
	// Long ones are left out of the tests: another one, or another package's test,
	// tells the same in less time.
	Long bool
	// Busy ones take all the processor time there is, and nothing else should run beside them.
	Busy bool
}

// Scenarios are all of them, in the order in which they are told.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "rotate", Run: rotate},
		{Name: "stay", Run: stay},
		{Name: "agrees with the simulator", Run: agrees, Long: true},
		{Name: "a Zipf crowd agrees with the simulator", Run: zipf, Long: true},
		{Name: "enforcements compared", Run: enforcements, Long: true},
		{Name: "elastic", Run: elastic},
		{Name: "many clients", Run: manyPaced, Busy: true},
		{Name: "many clients at their bound", Run: manyAtTheirBound, Busy: true},
		{Name: "leader killed", Run: leaderKilled},
		{Name: "windows, the leader killed", Run: windows},
		{Name: "follower wiped", Run: followerWiped},
		{Name: "leader wiped", Run: leaderWiped, Long: true},
		{Name: "budgets watched", Run: budgetsWatched},
		{Name: "rules changed", Run: rulesChanged},
		{Name: "a rule becomes another one", Run: kindChanged},
		{Name: "a rule slowed", Run: ruleSlowed},
		{Name: "blocks hold through every change", Run: blocksHold},
		{Name: "many clients, overload", Run: overload, Busy: true},
		{Name: "regional killed", Run: regionalKilled},
		{Name: "a second daemon", Run: secondDaemon},
		{Name: "a store lost for one of two daemons", Run: storeLostForOneOfTwo},
		{Name: "store and coordinators heard by two daemons", Run: storeAndCoordinatorsApart},
		{Name: "one Redis flushed", Run: redisFlushed},
		{Name: "one Redis restarted", Run: redisRestarted},
		{Name: "one Redis stopped", Run: redisStopped},
		{Name: "a primary killed under Sentinels", Run: primaryKilled},
		{Name: "a node of a Redis Cluster stopped", Run: nodeStopped},
		{Name: "a node of a Redis Cluster killed", Run: nodeKilled, Long: true},
		{Name: "all coordinators killed", Run: coordinatorsKilled, Long: true},
		{Name: "a regional restarted without coordinators", Run: restartedAlone},
		{Name: "regions before coordinators", Run: regionsBeforeCoordinators},
		{Name: "a region comes and goes", Run: regionLifecycle},
		{Name: "links cut, processes paused", Run: cuts},
	}
}

// Scale is how long and how large.
type Scale struct {
	// Run is the length of a run, Outage how long all coordinators are away, Watch
	// how long budgets are watched.
	Run, Outage, Watch time.Duration
	// Stall is how long a Redis does not answer.
	Stall time.Duration
	// Latencies are asked for as promised. They are of a machine with nothing else to do.
	Latencies bool
	// Clients of the scenarios with many.
	Clients int
	// Rounds of burst, pause, burst.
	Rounds int
	// ShareChanges is how many a watch must see at least.
	ShareChanges int
	// Slack is taken off the utilisations asked for: a short run weighs the first
	// moments more, in which the budgets find the demand, and a test may share its
	// two cores. The bounds have no slack.
	Slack float64
}

// Short fits a test; Full is what was promised.
func Short() Scale {
	return Scale{Run: 8 * time.Second, Outage: 13 * time.Second, Watch: 10 * time.Second, Stall: 3 * time.Second, Clients: 300, Rounds: 3, ShareChanges: 3, Slack: .1}
}

// Full is the length that the promises are made for.
func Full() Scale {
	return Scale{Run: 30 * time.Second, Outage: 60 * time.Second, Watch: 60 * time.Second, Stall: 10 * time.Second, Latencies: true, Clients: 2000, Rounds: 10, ShareChanges: 20}
}

// bigRule limits clients of the plan "big", strictly.
const bigRule = "per-key"

// The limits of rulesYAML and the protocol's static numbers in the cluster.
var (
	big   = bench.Limit{Capacity: 300, Refill: 100}
	small = bench.Limit{Capacity: 60, Refill: 2}
)

const (
	// lease is T, floor one region's part when it is cut off.
	lease = 10 * time.Second
	floor = 1. / 3
	// convergence is what a region may take to get its budget back after it was
	// away, with the WAN's distances left out.
	convergence = 2 * time.Second
	// bucket is the width of the time series that outages are read from.
	bucket = 100 * time.Millisecond
)

// load is the configuration of a run under the big limit.
func (l *Cluster) load(d time.Duration) bench.Config {
	c := bench.DefaultConfig()
	c.Regions, c.Duration, c.Limit, c.Bucket = l.RegionAddresses(), d, big, bucket
	c.Attributes = map[string]string{"plan": "big", "api_key": "bench-{run}-{client}"}
	return c
}

// loading is a run in the background.
type loading struct {
	began  time.Time
	done   chan struct{}
	report *bench.Report
	err    error
}

func begin(ctx context.Context, c bench.Config) *loading {
	r := &loading{began: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.report, r.err = bench.Rotate(ctx, c)
	}()
	return r
}

// wait returns the report when the run is over.
func (r *loading) wait() (*bench.Report, error) {
	<-r.done
	return r.report, r.err
}

// at is the present moment on the run's own time line.
func (r *loading) at() time.Duration { return time.Since(r.began) }

// admittedBetween adds up a time series.
func admittedBetween(series []bench.Bucket, from, to time.Duration) (n int64) {
	for i := max(int(from/bucket), 0); i < min(int(to/bucket), len(series)); i++ {
		n += series[i].Admitted
	}
	return n
}

// atMost and atLeast compare a measured figure with a promise.
func atMost(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf("<= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got <= want}
}

func atLeast(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf(">= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got >= want}
}

func none(promise string, n int64, detail any) Result {
	r := Result{Promise: promise, Want: "0", Got: fmt.Sprint(n), OK: n == 0}
	if n != 0 {
		r.Got += fmt.Sprintf(" %v", detail)
	}
	return r
}

// bounded are the promises of every run.
func bounded(r *bench.Report) []Result {
	return []Result{atMost("gain over the run", r.Gain, 1), atMost("gain over its worst interval", r.Worst.Gain, 1)}
}

func unfailing(r *bench.Report) Result {
	return none("checks without an answer", r.Failed, r.Errors)
}
