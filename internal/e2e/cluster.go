// Package e2e runs a whole installation as real processes, breaks them, and says
// whether the promises held. Its tests run every scenario in a short form;
// e2e/acceptance runs them at full length.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// readyWithin bounds the time to the first lease, and to recovery: elections
	// and the hand-over after lost leases (2T) included, on a machine however slow it is.
	readyWithin = 5 * time.Minute
	// pollEvery is how often a condition is looked at.
	pollEvery = 50 * time.Millisecond
	// callWithin bounds one question to a daemon, on a machine that may stop for a while.
	callWithin = time.Minute
)

// regionNames are the cluster's regions.
var regionNames = []string{"us-east", "eu-west", "ap-south"}

// checkedPath is the path that rulesYAML limits for proxies.
const checkedPath = "/checked"

// rulesYAML is what the cluster starts with: one limit, strict and elastic, a small one for
// keys of many clients at once, one that counts, in three ways, and one for proxies.
const rulesYAML = `rules:
  - id: per-key
    match: {attributes: {plan: big}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
  - id: small
    match: {attributes: {plan: small}}
    params: {capacity: 60, refill_rate: 2}
    enforcement: strict
  - id: burst
    match: {attributes: {plan: burst}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: elastic
  - id: fixed
    match: {attributes: {plan: fixed}}
    algorithm: fixed_window
    params: {limit: 60, window: 2}
  - id: counter
    match: {attributes: {plan: counter}}
    algorithm: sliding_window_counter
    params: {limit: 60, window: 2}
  - id: log
    match: {attributes: {plan: log}}
    algorithm: sliding_window_log
    params: {limit: 60, window: 2}
  - id: checked
    match: {endpoint_regex: "^/checked$"}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
`

// Cluster is three Redis servers, three coordinators and three regional daemons.
type Cluster struct {
	Redis        []*Process
	Coordinators []*Coordinator
	Regions      []*Region
	seconds      []*Region // second daemons of regions
	inMemory     bool      // no Redis: each daemon's store is in its process
	names        []string  // of the regions to begin with
	absent       string    // one more, which is declared and never runs; empty: none
	rules        string
	bin, dir     string
	http         *http.Client
}

// Coordinator is one coordinator process.
type Coordinator struct {
	*Process
	Address string // of its RPC
	dataDir string
	raft    string // the address of its Raft port
	gossip  string // and of its gossip
}

// Region is one regional daemon.
type Region struct {
	*Process
	Address string // of its Connect listener
	Region  string
	ops     string
	redis   string // its address; empty: the store is in memory
}

// Build compiles the programs of the module whose folder is given into dir.
func Build(ctx context.Context, module, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/...")
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Start begins a cluster with the programs in bin and its state in dir, on free ports,
// and returns when every region holds a lease. Call Stop even after an error if
// the Cluster is not nil.
func Start(ctx context.Context, bin, dir string) (*Cluster, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("redis-server is missing; `make test` installs it")
	}
	return start(ctx, newCluster(bin, dir))
}

// StartInMemory is Start without Redis: every daemon keeps its records itself.
func StartInMemory(ctx context.Context, bin, dir string) (*Cluster, error) {
	l := newCluster(bin, dir)
	l.inMemory = true
	return start(ctx, l)
}

func newCluster(bin, dir string) *Cluster {
	return &Cluster{http: rpc.NewHTTPClient(), bin: bin, dir: dir, names: regionNames, rules: rulesYAML}
}

func start(ctx context.Context, l *Cluster) (*Cluster, error) {
	if err := l.prepare(); err != nil {
		return nil, err
	}
	return l, l.run(ctx)
}

// prepare makes the processes of the cluster, and starts none.
func (l *Cluster) prepare() error {
	ports, err := freePorts(3*4 + len(l.names)*5)
	if err != nil {
		return err
	}
	if err := l.addCoordinators(&ports); err != nil {
		return err
	}
	for _, name := range l.names {
		l.addRegion(name, &ports)
	}
	return nil
}

// run starts the processes, and returns when every region holds a lease.
func (l *Cluster) run(ctx context.Context) error {
	for _, p := range l.processes() {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return l.AwaitLeases(ctx)
}

func (l *Cluster) processes() []*Process {
	out := append([]*Process{}, l.Redis...)
	for _, c := range l.Coordinators {
		out = append(out, c.Process)
	}
	for _, r := range slices.Concat(l.Regions, l.seconds) {
		out = append(out, r.Process)
	}
	return out
}

// Stop kills everything.
func (l *Cluster) Stop() {
	for _, p := range l.processes() {
		p.Kill9()
	}
}

// RegionAddresses are where checks go.
func (l *Cluster) RegionAddresses() []string {
	var out []string
	for _, r := range l.Regions {
		out = append(out, r.Address)
	}
	return out
}

// until polls a condition until it holds; its last error is the reason if it never
// does.
func until(ctx context.Context, within time.Duration, what string, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not %s within %v: %w", what, within, err)
		case <-tick.C:
		}
	}
}

// pause lets a part of a scenario's timeline pass.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// AwaitLeases waits until every region says it holds a lease.
func (l *Cluster) AwaitLeases(ctx context.Context) error {
	for _, r := range l.Regions {
		if err := l.awaitLease(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *Cluster) awaitLease(ctx context.Context, r *Region) error {
	err := until(ctx, readyWithin, r.Name+" leased", func() error {
		left, err := l.Lease(ctx, r)
		if err == nil && left <= 0 {
			err = errors.New("it holds no lease")
		}
		return err
	})
	if err != nil {
		return l.withLogs(err)
	}
	return nil
}

// awaitRules waits until a region decides by the cluster's rules, with or without a
// lease.
func (l *Cluster) awaitRules(ctx context.Context, r *Region) error {
	client := aliquotv1connect.NewLimiterServiceClient(l.http, rpc.BaseURL(r.Address))
	request := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "big", "api_key": "await-rules"}}
	err := until(ctx, readyWithin, r.Name+" deciding", func() error {
		ctx, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		answer, err := client.Check(ctx, request)
		if err == nil && answer.RuleId != bigRule {
			err = fmt.Errorf("mode %s, rule %q", answer.Mode, answer.RuleId)
		}
		return err
	})
	if err != nil {
		return l.withLogs(err)
	}
	return nil
}

func (l *Cluster) withLogs(err error) error {
	var b strings.Builder
	for _, p := range l.processes() {
		fmt.Fprintf(&b, "--- %s (running: %v)\n%s", p.Name, p.Running(), p.Tail())
	}
	return fmt.Errorf("%w\n%s", err, b.String())
}
