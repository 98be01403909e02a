package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"aliquot/internal/e2e"
)

const (
	// surgeExample has the rules, and proxyExample the front door, from the top of the module.
	surgeExample = "deploy/examples/surge/rules.yaml"
	proxyExample = "deploy/examples/nginx/nginx.conf"
	// riderLimit is how many requests a second the rules let a rider send.
	riderLimit = .04
)

// Surge sends the requests of many riders through nginx to a backend that collapses at 150 requests a
// second, with and without Aliquot between them, on real processes.
type Surge struct {
	// Out gets the lines that say what goes on; nil: nobody does.
	Out io.Writer
	// Module is the folder of the module; empty: the working directory.
	Module string
	// Regions is how many regions there are, 1 to 3.
	Regions int
	// Riders is how many riders there are, at least 1.
	Riders int
	// Times is how many times its limit each of them sends: 10 is a surge. Without Aliquot they
	// send only if that is more than 1.
	Times float64
	// Length is how long they send, at least 1 s; with and without Aliquot that long each.
	Length time.Duration
	// Impatient is the part of the riders, 0 to 1, who send on whatever Retry-After says.
	Impatient float64
	// Busy is how many processes that only take time run beside all that, for each core.
	Busy int
}

// SurgeRow is what the riders of one run got: Allowed requests, of which Failed failed, by reason;
// Refused ones (429); and Undecided ones, which a region refuses (503) when it knows nothing to decide
// by. Backend is how many reached the backend. Times are in milliseconds, from when a request is sent.
type SurgeRow struct {
	Regions    int            `json:"regions"`
	Aliquot    bool           `json:"aliquot"`
	Seconds    float64        `json:"seconds"`
	Allowed    int            `json:"allowed"`
	Failed     int            `json:"failed"`
	Failures   map[string]int `json:"failures"`
	Refused    int            `json:"refused"`
	Undecided  int            `json:"undecided"`
	Backend    int            `json:"backend"`
	AllowedP50 float64        `json:"allowed_p50_ms"`
	AllowedP99 float64        `json:"allowed_p99_ms"`
	RefusedP50 float64        `json:"refused_p50_ms"`
	RefusedP99 float64        `json:"refused_p99_ms"`

	lasted time.Duration // until the last answer
}

func (r SurgeRow) sent() int { return r.Allowed + r.Refused + r.Undecided }

// Valid reports what is wrong with the settings.
func (s Surge) Valid() error {
	switch {
	case s.Regions < 1 || s.Regions > len(e2e.RegionNames):
		return fmt.Errorf("%d regions; give 1 to %d", s.Regions, len(e2e.RegionNames))
	case s.Riders < 1:
		return fmt.Errorf("%d riders; give at least one", s.Riders)
	case s.Times <= 0 || s.Times > 1000:
		return fmt.Errorf("%v times the limit of a rider; give more than 0, and 1000 at the most", s.Times)
	case s.Length < time.Second:
		return fmt.Errorf("riders for %v; give at least 1s", s.Length)
	case s.Impatient < 0 || s.Impatient > 1:
		return fmt.Errorf("a part of %v of the riders; give 0 to 1", s.Impatient)
	case s.Busy < 0:
		return fmt.Errorf("%d busy processes a core; give 0 or more", s.Busy)
	}
	return nil
}

// Run runs the surge with the programs in bin and its state in dir, and returns a row without Aliquot
// (if Times is more than 1) and one with it.
func (s Surge) Run(ctx context.Context, bin, dir string) (rows []SurgeRow, err error) {
	if err := s.Valid(); err != nil {
		return nil, err
	}
	if s.Out == nil {
		s.Out = io.Discard
	}
	for _, program := range []string{"nginx", "redis-server"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s is missing; `make surge` installs it", program)
		}
	}
	rules, err := os.ReadFile(filepath.Join(s.Module, surgeExample))
	if err != nil {
		return nil, fmt.Errorf("%w: run it at the top of the module", err)
	}
	fmt.Fprintf(s.Out, "starting 3 coordinators, and a regional daemon, a Redis and nginx in each of %d regions ...\n", s.Regions)
	cluster, err := e2e.Start(ctx, bin, dir, e2e.Setup{Regions: e2e.RegionNames[:s.Regions], Rules: string(rules)})
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		return nil, err
	}
	stop, err := e2e.Busy(dir, s.Busy*runtime.NumCPU())
	defer stop()
	if err != nil {
		return nil, err
	}
	for _, aliquot := range []bool{false, true} {
		if s.Times <= 1 && !aliquot {
			continue
		}
		row, err := s.row(ctx, cluster, aliquot)
		if err != nil {
			return nil, cluster.WithLogs(err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// row is one run of all riders.
func (s Surge) row(ctx context.Context, cluster *e2e.Cluster, aliquot bool) (SurgeRow, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	backend, err := startBackend(ctx)
	if err != nil {
		return SurgeRow{}, err
	}
	defer backend.stop()
	rate := riderLimit * s.Times
	r := &surgeRiders{n: s.Riders, every: time.Duration(float64(time.Second) / rate), impatient: s.Impatient}
	for _, region := range cluster.Regions {
		door, nginx, err := s.door(ctx, cluster, region, backend.address, aliquot)
		if err != nil {
			return SurgeRow{}, err
		}
		defer nginx.Kill9()
		r.doors = append(r.doors, door)
	}
	fmt.Fprintf(s.Out, "%d riders, %.0f requests a second for %v, %s Aliquot ...\n", s.Riders, rate*float64(s.Riders), s.Length, SurgeRow{Aliquot: aliquot}.with())
	began := time.Now()
	c := r.ride(ctx, s.Length)
	lasted := time.Since(began)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return SurgeRow{Regions: s.Regions, Aliquot: aliquot, Seconds: s.Length.Seconds(), Allowed: c.allowed, Failed: c.failed, Failures: c.failures,
		Refused: c.refused, Undecided: c.undecided, Backend: int(backend.arrived.Load()),
		AllowedP50: ms(c.allowedTook.Quantile(.5)), AllowedP99: ms(c.allowedTook.Quantile(.99)),
		RefusedP50: ms(c.refusedTook.Quantile(.5)), RefusedP99: ms(c.refusedTook.Quantile(.99)), lasted: lasted,
	}, ctx.Err()
}

// door starts nginx before a region, with the example's configuration: for these addresses, with room
// for the riders' connections, with the riders' ids as they say them (nobody else sends requests
// here), and as a proxy alone if Aliquot is to be left out.
func (s Surge) door(ctx context.Context, cluster *e2e.Cluster, region *e2e.Region, backend string, aliquot bool) (url string, nginx *e2e.Process, err error) {
	address, err := e2e.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	changes := map[string]string{
		"127.0.0.1:7500": region.Address, "127.0.0.1:9000": backend, "127.0.0.1:8080": address,
		"worker_connections 1024;":       "worker_connections 16384;",
		`proxy_set_header X-User-Id "";`: "proxy_set_header X-User-Id $http_x_user_id;",
	}
	if !aliquot {
		changes["auth_request /_limit;"] = ""
	}
	text, err := os.ReadFile(filepath.Join(s.Module, proxyExample))
	if err != nil {
		return "", nil, err
	}
	config := string(text)
	for from, to := range changes {
		if strings.Count(config, from) != 1 {
			return "", nil, fmt.Errorf("%s has not one %q", proxyExample, from)
		}
		config = strings.Replace(config, from, to, 1)
	}
	dir, err := os.MkdirTemp(cluster.Dir, "nginx-")
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	nginx = e2e.NewProcess(dir, "nginx", "nginx", "-p", dir, "-c", file, "-e", "stderr", "-g", "daemon off; master_process off;")
	if err := nginx.Start(); err != nil {
		return "", nil, err
	}
	err = e2e.Until(ctx, e2e.CallWithin, "listening", func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		} else if !nginx.Running() {
			return errors.New(nginx.Tail())
		}
		return err
	})
	if err != nil {
		return "", nil, errors.Join(err, nginx.Kill9())
	}
	return "http://" + address, nginx, nil
}

// PrintSurge prints the rows as a table, and beneath it why requests failed and what Aliquot changed.
func PrintSurge(out io.Writer, rows []SurgeRow) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "regions\tAliquot\tsent/s\tto the backend/s\tallowed\tp50\tp99\tfailed\t429\t503\tp50 of a 429\tp99\t")
	for _, r := range rows {
		refused := "-\t-"
		if r.Refused > 0 {
			refused = fmt.Sprintf("%.2f ms\t%.2f ms", r.RefusedP50, r.RefusedP99)
		}
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.0f\t%d\t%.0f ms\t%.0f ms\t%s\t%s\t%s\t%s\t\n", r.Regions, r.with(),
			float64(r.sent())/r.Seconds, float64(r.Backend)/r.Seconds, r.Allowed, r.AllowedP50, r.AllowedP99,
			percent(r.Failed, r.Allowed), percent(r.Refused, r.sent()), percent(r.Undecided, r.sent()), refused)
	}
	w.Flush()
	for i, r := range rows {
		for _, why := range slices.Sorted(maps.Keys(r.Failures)) {
			fmt.Fprintf(out, "%d regions %s Aliquot: %d failed: %s\n", r.Regions, r.with(), r.Failures[why], why)
		}
		if i > 0 && r.Aliquot && !rows[i-1].Aliquot {
			without := rows[i-1]
			fmt.Fprintf(out, "%d regions with Aliquot: p99 of allowed requests %.1f %% lower, load of the backend %.1f %% lower\n", r.Regions,
				100*(1-r.AllowedP99/without.AllowedP99), 100*(1-float64(r.Backend)/float64(without.Backend)))
		}
	}
}

// with is the row's side of the comparison, in a word.
func (r SurgeRow) with() string {
	if r.Aliquot {
		return "with"
	}
	return "without"
}

func percent(part, all int) string {
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(max(all, 1)))
}
