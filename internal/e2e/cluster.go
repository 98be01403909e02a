// Package e2e runs a cluster of real processes, and breaks daemons, stores and the links between them. e2e/limits and
// e2e/faults say what must hold meanwhile. e2e/acceptance runs them at full length, and its tests run a short form.
package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aliquot/internal/rpc"
)

const (
	// ReadyWithin bounds the time to the first lease and to recovery, with elections and the wait for old leases (2T),
	// also on a slow machine.
	ReadyWithin = 5 * time.Minute
	// PollEvery is the time between two tries of a condition.
	PollEvery = 50 * time.Millisecond
	// CallWithin bounds one call to a daemon, also on a machine that stops for a while.
	CallWithin = time.Minute
)

// RegionNames are a cluster's regions, unless its Setup names others.
var RegionNames = []string{"us-east", "eu-west", "ap-south"}

// Cluster is three Redis servers, three coordinators and three regional daemons.
type Cluster struct {
	Redis        []*Process
	Coordinators []*Coordinator
	Regions      []*Region
	Setup        Setup
	Seconds      []*Region // second daemons of regions
	Bin, Dir     string
	HTTP         *http.Client
}

// Setup is what can differ between clusters. The zero value is what Cluster describes, with RulesYAML.
type Setup struct {
	Regions  []string // the names of the regions to begin with; nil: RegionNames
	Absent   string   // one more, which is declared and never runs; empty: none
	Rules    string   // as YAML; empty: RulesYAML
	InMemory bool     // no Redis: each daemon's store is in its process
}

// Coordinator is one coordinator process.
type Coordinator struct {
	*Process
	Address string // of its RPC
	DataDir string
	Raft    string // the address of its Raft port
	Gossip  string // and of its gossip
}

// Region is one regional daemon.
type Region struct {
	*Process
	Address string // of its Connect listener
	Region  string
	ops     string
	Redis   string // its address; empty: the store is in memory
}

// Build compiles the programs of the module whose folder is given into dir.
func Build(ctx context.Context, module, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/...")
	cmd.Dir = filepath.FromSlash(module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Start starts a cluster with the programs in bin and its state in dir, on free ports,
// and returns when every region has a lease. Call Stop even after an error if
// the Cluster is not nil.
func Start(ctx context.Context, bin, dir string, s Setup) (*Cluster, error) {
	if _, err := exec.LookPath("redis-server"); err != nil && !s.InMemory {
		return nil, errors.New("redis-server is missing; `make test` installs it")
	}
	l, err := New(bin, dir, s)
	if err != nil {
		return nil, err
	}
	return l, l.Run(ctx)
}

// New returns a cluster as Start does, whose processes Run starts.
func New(bin, dir string, s Setup) (*Cluster, error) {
	if s.Regions == nil {
		s.Regions = RegionNames
	}
	s.Rules = cmp.Or(s.Rules, RulesYAML)
	l := &Cluster{Setup: s, HTTP: rpc.NewHTTPClient(), Bin: bin, Dir: dir}
	free, err := FreePorts(3*4 + len(s.Regions)*5)
	if err != nil {
		return nil, err
	}
	if err := l.addCoordinators(&free); err != nil {
		return nil, err
	}
	for _, name := range s.Regions {
		l.addRegion(name, &free)
	}
	return l, nil
}

// Run starts the processes, and returns when every region has a lease.
func (l *Cluster) Run(ctx context.Context) error {
	for _, p := range l.Processes() {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return l.AwaitLeases(ctx)
}

// Processes returns the cluster's stores, coordinators and regional daemons, in the order in which they start.
func (l *Cluster) Processes() []*Process {
	out := append([]*Process{}, l.Redis...)
	for _, c := range l.Coordinators {
		out = append(out, c.Process)
	}
	for _, r := range slices.Concat(l.Regions, l.Seconds) {
		out = append(out, r.Process)
	}
	return out
}

// Stop kills all processes.
func (l *Cluster) Stop() {
	for _, p := range l.Processes() {
		p.Kill9()
	}
}

// RegionAddresses returns the addresses that checks go to.
func (l *Cluster) RegionAddresses() []string {
	var out []string
	for _, r := range l.Regions {
		out = append(out, r.Address)
	}
	return out
}

// Until polls a condition until it returns nil. If it does not within a time, the error has its last one.
func Until(ctx context.Context, within time.Duration, what string, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(PollEvery)
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

// Pause lets a part of a scenario's timeline pass.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// AwaitLeases waits until every region has a lease, by its own metrics.
func (l *Cluster) AwaitLeases(ctx context.Context) error {
	for _, r := range l.Regions {
		if err := l.AwaitLease(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// AwaitLease waits until a region has a lease, by its own metrics.
func (l *Cluster) AwaitLease(ctx context.Context, r *Region) error {
	err := Until(ctx, ReadyWithin, r.Name+" leased", func() error {
		left, err := l.Lease(ctx, r)
		if err == nil && left <= 0 {
			err = errors.New("it holds no lease")
		}
		return err
	})
	if err != nil {
		return l.WithLogs(err)
	}
	return nil
}

// WithLogs returns err with the end of each process's log.
func (l *Cluster) WithLogs(err error) error {
	var b strings.Builder
	for _, p := range l.Processes() {
		fmt.Fprintf(&b, "--- %s (running: %v)\n%s", p.Name, p.Running(), p.Tail())
	}
	return fmt.Errorf("%w\n%s", err, b.String())
}

// KillCoordinators kills all coordinators with SIGKILL.
func (l *Cluster) KillCoordinators() error {
	for _, c := range l.Coordinators {
		if err := c.Kill9(); err != nil {
			return err
		}
	}
	return nil
}

// RestartCoordinators starts all coordinators again. It returns how long it took until every region had a lease.
func (l *Cluster) RestartCoordinators(ctx context.Context) (time.Duration, error) {
	for _, c := range l.Coordinators {
		if err := c.Start(); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	err := errors.Join(l.AwaitLeases(ctx), l.AwaitAllCoordinators(ctx))
	return time.Since(began), err
}

// AwaitAllCoordinators waits until every coordinator answers for a budget, so it knows a leader.
func (l *Cluster) AwaitAllCoordinators(ctx context.Context) error {
	for _, c := range l.Coordinators {
		err := Until(ctx, ReadyWithin, c.Name+" back", func() error {
			_, err := l.Budget(ctx, c, "small", map[string]string{"api_key": "any"})
			return err
		})
		if err != nil {
			return l.WithLogs(err)
		}
	}
	return nil
}

// ForgetEverything kills every daemon and removes the state files of the regions. Coordinators keep their state.
func (l *Cluster) ForgetEverything() error {
	err := l.KillCoordinators()
	for _, r := range l.Regions {
		gone := os.Remove(r.Flag("--state-file"))
		if errors.Is(gone, fs.ErrNotExist) {
			gone = nil
		}
		err = errors.Join(err, r.Kill9(), gone)
	}
	return err
}
