// Command overload asks a regional daemon on one core once, twice and four times what it can answer, over each
// protocol, and prints as a table or as JSON what it answered in time, what it refused, and its lease. It exits
// with 1 where it misses what is promised. Run it at the top of the module, on a machine with two cores or more.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"aliquot/internal/bench/load"
	"aliquot/internal/e2e"
)

// The cores: the daemon has one for itself, the generator, Redis and the coordinator share another.
const daemonCore, otherCore = 0, 1

// The promises.
const (
	leastGoodput = .9 // of what is answered at 1x
	mostLatency  = 100 * time.Millisecond
	mostRecovery = 2 * time.Second
)

func main() {
	m := measurement{}
	asJSON := flag.Bool("json", false, "print JSON")
	only := flag.String("protocols", "http,json,grpc,rls", "protocols to measure")
	flag.DurationVar(&m.seconds, "duration", 4*time.Second, "how long each load lasts")
	flag.IntVar(&m.turns, "turns", 5, "how many times the loads come, by turns")
	flag.IntVar(&m.connections, "connections", 16, "connections of gRPC under overload")
	flag.IntVar(&m.workers, "workers", 1024, "calls under way at once at most, over gRPC")
	flag.IntVar(&m.lines, "http-connections", 1024, "connections of HTTP/1.1 under overload, with one call each")
	e2e.Main("overload", nil, func(ctx context.Context, bin, dir string) (bool, error) {
		rows, err := m.run(ctx, bin, dir, strings.Split(*only, ","))
		if *asJSON {
			err = errors.Join(err, e2e.PrintJSON(os.Stdout, rows))
		} else {
			table(rows)
		}
		return err == nil && kept(rows), err
	})
}

// row is what was measured under one load.
type row struct {
	Protocol load.Protocol `json:"protocol"`
	Times    float64       `json:"times"` // of what the daemon can answer; 0: a closed loop, which found that
	Asked    float64       `json:"asked"` // calls a second
	Goodput  float64       `json:"goodput"`
	Share    float64       `json:"goodputOfOne"` // of the goodput at 1x
	P50, P99 time.Duration
	Refused  map[string]int64 `json:"refused"`
	// Fallback is the share of answers that were decided without the store.
	Fallback  float64       `json:"fallback"`
	Lease     float64       `json:"lowestLeaseSeconds"`
	Recovered time.Duration `json:"recovered"`
	Late      time.Duration `json:"generatorLateP50"`
	CPU       float64       `json:"generatorCores"`
	// Daemon is the processor time that the daemon had, of one core; PerCore is the goodput of a whole one.
	Daemon  float64  `json:"daemonCores"`
	PerCore float64  `json:"goodputPerCore"`
	Missed  []string `json:"missed"`
}

type measurement struct {
	seconds                            time.Duration
	connections, workers, lines, turns int
}

func (m *measurement) run(ctx context.Context, bin, dir string, only []string) (rows []row, err error) {
	if path, err := exec.LookPath("taskset"); err == nil {
		_ = exec.Command(path, "-a", "-p", "-c", strconv.Itoa(otherCore), strconv.Itoa(os.Getpid())).Run() // elsewhere: unpinned
	}
	l, err := startCluster(ctx, bin, dir)
	defer l.stop()
	if err != nil {
		return nil, err
	}
	for _, name := range only {
		closed, err := m.byTurns(ctx, l, load.Protocol(name), 0, 0)
		if err != nil {
			return rows, err
		}
		open, err := m.byTurns(ctx, l, load.Protocol(name), closed[0].Goodput, 1, 2, 4)
		if err != nil {
			return rows, err
		}
		for i := range open {
			open[i].judge(open[0].Goodput)
		}
		rows = append(append(rows, closed...), open...)
	}
	return rows, nil
}

// byTurns puts each load on the daemon several times, by turns: one machine decides up to a third more at one time
// than at another.
func (m *measurement) byTurns(ctx context.Context, l *cluster, p load.Protocol, capacity float64, loads ...float64) ([]row, error) {
	turns := make([][]row, len(loads))
	for range max(m.turns, 1) {
		for i, times := range loads {
			r, err := m.measure(ctx, l, p, times, capacity)
			if err != nil {
				return nil, err
			}
			turns[i] = append(turns[i], r)
			fmt.Fprintf(os.Stderr, "%+v\n", r)
		}
	}
	out := make([]row, len(loads))
	for i := range turns {
		out[i] = ofTurns(turns[i])
	}
	return out, nil
}

// ofTurns is the turn with the median goodput, with the median p99, the lowest lease and the longest recovery of all.
func ofTurns(turns []row) row {
	slices.SortFunc(turns, func(a, b row) int { return cmp.Compare(a.P99, b.P99) })
	p99 := turns[len(turns)/2].P99
	slices.SortFunc(turns, func(a, b row) int { return cmp.Compare(a.Goodput, b.Goodput) })
	r := turns[len(turns)/2]
	r.P99 = p99
	for _, one := range turns {
		r.Lease, r.Recovered = min(r.Lease, one.Lease), max(r.Recovered, one.Recovered)
	}
	return r
}

// config is a closed loop that keeps the daemon busy, or an open one at a rate.
func (m *measurement) config(l *cluster, p load.Protocol, rate float64) load.Config {
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Connections, c.Workers, c.Keys = p, l.grpc, 8, 128, 10_000
	c.Duration, c.Warmup, c.Rate = m.seconds, time.Second, rate
	c.Server.PID = l.regional.Process.Pid
	if rate > 0 {
		c.Connections, c.Workers = m.connections, m.workers
	}
	if p == load.HTTP || p == load.JSON {
		c.Address = l.at
		if rate > 0 {
			c.Connections, c.Workers = m.lines, m.lines
		}
	}
	return c
}

func (m *measurement) measure(ctx context.Context, l *cluster, p load.Protocol, times, capacity float64) (row, error) {
	r := row{Protocol: p, Times: times, Asked: times * capacity}
	before := l.metrics()
	watching, done := context.WithCancel(ctx)
	lowest := make(chan float64)
	go func() { lowest <- l.lowestLease(watching) }()
	report, err := load.Run(ctx, m.config(l, p, r.Asked))
	done()
	r.Lease = <-lowest
	if err != nil {
		return r, err
	}
	if r.Recovered, err = l.recovered(ctx); err != nil {
		return r, err
	}
	fallback, all := 0., 0.
	for series, v := range l.metrics() {
		if strings.HasPrefix(series, "aliquot_decisions_total{") {
			all += v - before[series]
			if !strings.Contains(series, `mode="store"`) && !strings.Contains(series, `mode="local"`) {
				fallback += v - before[series]
			}
		}
	}
	r.Fallback = fallback / max(all, 1)
	r.Goodput = report.ChecksPerSecond * (1 - r.Fallback)
	r.P50, r.P99, r.Late, r.Refused = report.UnderWay.P50, report.UnderWay.P99, report.Late.P50, report.Errors
	r.Daemon = report.ServerCPU * report.ChecksPerSecond / 1e6
	r.PerCore = r.Goodput / r.Daemon
	r.CPU = report.GeneratorCPU * report.ChecksPerSecond / 1e6
	return r, nil
}

// lowestLease is the least that was left of the lease until ctx ended.
func (l *cluster) lowestLease(ctx context.Context) float64 {
	lowest := l.lease()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return lowest
		case <-tick.C:
			if v := l.lease(); v >= 0 {
				lowest = min(lowest, v)
			}
		}
	}
}

// recovered is how long it takes after a load until the store decides ten checks in a row, each within 20 ms.
func (l *cluster) recovered(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Connections, c.Workers = load.GRPC, l.grpc, 1, 1
	c.Duration, c.Warmup, c.Rate = 100*time.Millisecond, 0, 100
	for {
		from := time.Now()
		r, err := load.Run(ctx, c)
		if err != nil {
			return 0, err
		}
		if r.Modes["store"]+r.Modes["local"] >= 9 && r.Failed == 0 && r.Latency.Max < 20*time.Millisecond {
			return from.Sub(began), nil
		}
		if from.Sub(began) > time.Minute {
			return from.Sub(began), nil
		}
	}
}

// judge notes where a row misses what is promised.
func (r *row) judge(one float64) {
	r.Share = r.Goodput / one
	miss := func(ok bool, what string) {
		if !ok {
			r.Missed = append(r.Missed, what)
		}
	}
	miss(r.Share >= leastGoodput, "goodput")
	miss(r.P99 <= mostLatency, "p99")
	miss(r.Lease > 0, "lease")
	miss(r.Recovered <= mostRecovery, "recovery")
}

func kept(rows []row) bool {
	for _, r := range rows {
		if len(r.Missed) > 0 {
			return false
		}
	}
	return true
}

func table(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "protocol\tload\tasked/s\tgoodput/s\tof a core\tper core\tof 1x\tp50\tp99\trefused\twithout the store\tlease\tnormal after\tmissed")
	for _, r := range rows {
		load := "closed loop"
		if r.Times > 0 {
			load = fmt.Sprintf("%gx", r.Times)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.2f\t%.0f\t%.2f\t%v\t%v\t%v\t%.1f %%\t%.1f s\t%v\t%s\n", r.Protocol, load, r.Asked, r.Goodput, r.Daemon, r.PerCore, r.Share,
			r.P50.Round(100*time.Microsecond), r.P99.Round(100*time.Microsecond), r.Refused, 100*r.Fallback, r.Lease, r.Recovered.Round(time.Millisecond), strings.Join(r.Missed, ", "))
	}
	w.Flush()
}
