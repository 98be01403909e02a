// Package e2e runs a whole installation as real processes, breaks them, and says
// whether the promises held. Its tests run every scenario in a short form;
// e2e/acceptance runs them at full length.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rpc"
)

const (
	// readyWithin bounds the time to the first lease, and to recovery: elections
	// and the hand-over after lost leases (2T) included.
	readyWithin = 60 * time.Second
	// pollEvery is how often a condition is looked at.
	pollEvery = 50 * time.Millisecond
	// callWithin bounds one question to a daemon.
	callWithin = 2 * time.Second
)

// regionNames are the lab's regions.
var regionNames = []string{"us-east", "eu-west", "ap-south"}

// rulesYAML is what the lab starts with: the limit for every api_key, and
// a small one for keys of many clients at once.
const rulesYAML = `rules:
  - id: per-key
    match: {attributes: {plan: big}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
  - id: small
    match: {attributes: {plan: small}}
    params: {capacity: 60, refill_rate: 2}
    enforcement: strict
`

// Lab is three Redis servers, three coordinators and three regional daemons.
type Lab struct {
	Redis        []*Process
	Coordinators []*Coordinator
	Regions      []*Region
	http         *http.Client
}

// Coordinator is one coordinator process.
type Coordinator struct {
	*Process
	Address string // of its RPC
}

// Region is one regional daemon.
type Region struct {
	*Process
	Address string // of its Connect listener
	ops     string
	redis   string
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

// Start begins a lab with the programs in bin and its state in dir, on free ports,
// and returns when every region holds a lease. Call Stop even after an error if
// the Lab is not nil.
func Start(ctx context.Context, bin, dir string) (*Lab, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("redis-server is missing; `make test` installs it")
	}
	ports, err := freePorts(3 + 3*4 + 3*4)
	if err != nil {
		return nil, err
	}
	next := func() string { p := ports[0]; ports = ports[1:]; return net.JoinHostPort("127.0.0.1", p) }
	l := &Lab{http: rpc.NewHTTPClient()}
	redis := l.addRedis(dir, next)
	if err := l.addCoordinators(bin, dir, next); err != nil {
		return nil, err
	}
	l.addRegions(bin, dir, redis, next)
	for _, p := range l.processes() {
		if err := p.Start(); err != nil {
			return l, err
		}
	}
	return l, l.AwaitLeases(ctx)
}

// freePorts finds ports that nothing listens on.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all were found, so that they differ
		out = append(out, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return out, nil
}

func (l *Lab) addRedis(dir string, next func() string) (addresses []string) {
	for _, name := range regionNames {
		address := next()
		_, port, _ := net.SplitHostPort(address)
		l.Redis = append(l.Redis, newProcess(dir, "redis-"+name, "redis-server", "--port", port, "--bind", "127.0.0.1",
			"--dir", dir, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"))
		addresses = append(addresses, address)
	}
	return addresses
}

func (l *Lab) addCoordinators(bin, dir string, next func() string) error {
	rulesFile := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rulesFile, []byte(rulesYAML), 0o600); err != nil {
		return err
	}
	var gossip [3]string
	for i := range gossip {
		gossip[i] = next()
	}
	for i := range gossip {
		name, address := fmt.Sprintf("c%d", i+1), next()
		p := newProcess(dir, name, filepath.Join(bin, "coordinator"), "--node-id", name, "--data-dir", filepath.Join(dir, name),
			"--listen", address, "--raft-listen", next(), "--gossip-listen", gossip[i], "--ops-listen", next(),
			"--join", strings.Join(gossip[:], ","), "--bootstrap-expect", "3",
			"--regions", strings.Join(regionNames, ","), "--rules", rulesFile)
		l.Coordinators = append(l.Coordinators, &Coordinator{Process: p, Address: address})
	}
	return nil
}

func (l *Lab) addRegions(bin, dir string, redis []string, next func() string) {
	var coordinators []string
	for _, c := range l.Coordinators {
		coordinators = append(coordinators, c.Address)
	}
	for i, name := range regionNames {
		address, ops := next(), next()
		p := newProcess(dir, name, filepath.Join(bin, "regional"), "--region", name, "--listen", address, "--ops-listen", ops,
			"--grpc-listen", next(), "--gossip-listen", next(), "--redis", "redis://"+redis[i],
			"--state-file", filepath.Join(dir, name+".json"), "--coordinators", strings.Join(coordinators, ","))
		l.Regions = append(l.Regions, &Region{Process: p, Address: address, ops: ops, redis: redis[i]})
	}
}

func (l *Lab) processes() []*Process {
	out := append([]*Process{}, l.Redis...)
	for _, c := range l.Coordinators {
		out = append(out, c.Process)
	}
	for _, r := range l.Regions {
		out = append(out, r.Process)
	}
	return out
}

// Stop kills everything.
func (l *Lab) Stop() {
	for _, p := range l.processes() {
		p.Kill9()
	}
}

// RegionAddresses are where checks go.
func (l *Lab) RegionAddresses() []string {
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
func (l *Lab) AwaitLeases(ctx context.Context) error {
	for _, r := range l.Regions {
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
	}
	return nil
}

func (l *Lab) withLogs(err error) error {
	var b strings.Builder
	for _, p := range l.processes() {
		fmt.Fprintf(&b, "--- %s (running: %v)\n%s", p.Name, p.Running(), p.Tail())
	}
	return fmt.Errorf("%w\n%s", err, b.String())
}

// Lease is how long a region's lease still runs, as its own metrics say.
func (l *Lab) Lease(ctx context.Context, r *Region) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.ops+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := l.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "aliquot_lease_remaining_seconds") {
			fields := strings.Fields(line)
			seconds, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			return time.Duration(seconds * float64(time.Second)), err
		}
	}
	return 0, errors.New("no aliquot_lease_remaining_seconds in its metrics")
}

// Flush empties a region's Redis (FLUSHALL).
func (l *Lab) Flush(r *Region) error {
	conn, err := net.DialTimeout("tcp", r.redis, callWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(callWithin))
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		return err
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err == nil && !strings.HasPrefix(string(reply[:n]), "+OK") {
		err = fmt.Errorf("FLUSHALL: %s", reply[:n])
	}
	return err
}

func (l *Lab) budgets(c *Coordinator) aliquotv1connect.BudgetServiceClient {
	return aliquotv1connect.NewBudgetServiceClient(l.http, rpc.BaseURL(c.Address))
}

// Budget asks one coordinator for a key's budget.
func (l *Lab) Budget(ctx context.Context, c *Coordinator, rule string, key map[string]string) (*aliquotv1.Budget, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	answer, err := l.budgets(c).GetBudget(ctx, &aliquotv1.GetBudgetRequest{RuleId: rule, Key: key})
	return answer.GetBudget(), err
}

// Leader is the running coordinator that says it leads, or an error.
func (l *Lab) Leader(ctx context.Context) (*Coordinator, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	for _, c := range l.Coordinators {
		if !c.Running() {
			continue
		}
		status, err := aliquotv1connect.NewClusterServiceClient(l.http, rpc.BaseURL(c.Address)).GetStatus(ctx, &aliquotv1.GetStatusRequest{})
		if err == nil && status.State == "leader" {
			return c, nil
		}
	}
	return nil, errors.New("no coordinator says it leads")
}
