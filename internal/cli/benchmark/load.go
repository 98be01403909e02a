package benchmark

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aliquot/internal/bench/floor"
	"aliquot/internal/bench/latency"
	"aliquot/internal/bench/load"
	"aliquot/internal/cli/console"
)

// floorWithin bounds how long a floor may take to begin to listen.
const floorWithin = 5 * time.Second

// loadResult is what `bench load` prints.
type loadResult struct {
	*load.Report
	Floor *floorResult `json:"floor,omitempty"`
}

// floorResult is a server that decides nothing, under the same load in the same run.
type floorResult struct {
	*load.Report
	Pairs int `json:"pairs"`
	// Medians over the pairs of the server's figure divided by the floor's.
	ChecksRatio    float64 `json:"checksRatio"`
	ServerCPURatio float64 `json:"serverCpuRatio"`
	P99Ratio       float64 `json:"p99Ratio"`
}

func newLoad(g *console.Globals) *cobra.Command {
	var (
		c         = load.DefaultConfig()
		protocol  = string(c.Protocol)
		withFloor bool
		pairs     int
	)
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Send as many checks as a daemon can answer, or a fixed number a second",
		Long: `Sends checks of many keys to one daemon. Prints the answers a second, the latency, and
the processor time that a million checks take of the server, Redis and the generator.
The generator encodes each request once and only scans the answers, so that it takes
little of the machine.

Without --rate each worker sends its next call when the last one is answered.
With --rate a call is sent when it is due, whether or not earlier ones are answered.
The latency counts from that time; 'sent late' is the generator's part of it.

With --floor the command also starts a server that answers every check alike. It
measures both in turns, --pairs times each; the ratios are medians over the pairs.

Over HTTP/1.1 (connect, http) every worker has a connection of its own; over gRPC (grpc,
rls, stream) they share --connections, with stream as messages of one stream each.

Exits with 1 when checks failed.`,
		Example: `  aliquot bench load
  aliquot bench load --protocol grpc --floor --redis redis://127.0.0.1:7600
  aliquot bench load --protocol grpc --batch 256 --workers 16 --hot-key 50
  aliquot bench load --protocol stream --batch 16 --workers 128
  aliquot bench load --protocol rls --descriptors 10 --attr domain=bench --attr tenant=t{key}
  aliquot bench load --rate 10000 --duration 30s`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&protocol, "protocol", protocol, "connect, grpc, stream (CheckStream over gRPC), rls (Envoy's) or http (GET /check)")
	f.StringVar(&c.Address, "target", "", "host:port or URL of the daemon, or unix://PATH (default 127.0.0.1:7500, for gRPC 7501)")
	loadShape(f, &c)
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long to measure, with --floor for each of a pair")
	f.DurationVar(&c.Warmup, "warmup", c.Warmup, "how long to send before")
	f.StringVar(&c.Server.Ops, "ops", "", "ops listener of the server, for its processor time (default: of the process that listens here)")
	f.IntVar(&c.Server.PID, "pid", 0, "process of the server, for its processor time")
	f.StringSliceVar(&c.Redis, "redis", nil, "URLs of the Redis servers whose processor time and calls are measured")
	f.BoolVar(&withFloor, "floor", false, "also measure a server that decides nothing, in turns")
	f.IntVar(&pairs, "pairs", 5, "with --floor: how often each is measured")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.Protocol, c.Timeout = load.Protocol(protocol), g.Timeout
		if addr := cmd.Flags().Lookup("addr"); addr.Changed {
			return console.Usagef("--addr: bench load asks no coordinator; name the daemon with --target %s", addr.Value)
		}
		if c.Address == "" {
			c.Address = defaultLoadTarget(c.Protocol)
		}
		if err := c.Validate(); err != nil {
			return console.AsUsage(err)
		}
		if withFloor && (pairs < 1 || pairs > 100) {
			return console.Usagef("--pairs %d: give 1 to 100", pairs)
		}
		result, err := runLoad(cmd.Context(), c, withFloor, pairs)
		if err != nil {
			return err
		}
		if err := g.PrintValue(result, func(w io.Writer) { printLoad(w, result) }); err != nil {
			return err
		}
		switch {
		case result.Checks == 0:
			return errors.New("no check was answered")
		case result.Failed > 0:
			return fmt.Errorf("%d checks failed", result.Failed)
		}
		return nil
	}
	return cmd
}

// loadShape are the flags of what is sent.
func loadShape(f *pflag.FlagSet, c *load.Config) {
	f.StringArrayVar(&c.Attributes, "attr", nil, "name=value, repeatable, with {key} for the key's number: attributes, descriptor entries (domain is the request's), or headers")
	f.IntVar(&c.Connections, "connections", c.Connections, "connections over gRPC")
	f.IntVar(&c.Workers, "workers", c.Workers, "calls under way at once")
	f.IntVar(&c.Batch, "batch", c.Batch, "checks in one call (connect, grpc) or message (stream)")
	f.IntVar(&c.Descriptors, "descriptors", c.Descriptors, "checks in one call (rls)")
	f.IntVar(&c.Keys, "keys", c.Keys, "how many keys there are")
	f.Float64Var(&c.Zipf, "zipf", c.Zipf, "exponent of the keys' Zipf distribution; 0: all alike")
	f.Float64Var(&c.HotKey, "hot-key", 0, "percentage of the checks that go to one key more")
	f.Float64Var(&c.Rate, "rate", 0, "checks a second; 0: as many as it can")
}

func defaultLoadTarget(p load.Protocol) string {
	if p == load.GRPC || p == load.RLS || p == load.Stream {
		return "127.0.0.1:7501"
	}
	return console.DefaultRegion
}

// runLoad measures a server, with a floor beside it or not.
func runLoad(ctx context.Context, c load.Config, withFloor bool, pairs int) (*loadResult, error) {
	if !withFloor {
		r, err := load.Run(ctx, c)
		return &loadResult{Report: r}, err
	}
	beside, stop, err := startFloor(ctx, c)
	if err != nil {
		return nil, err
	}
	defer stop()
	p, err := load.RunPair(ctx, c, beside, pairs)
	if err != nil {
		return nil, err
	}
	return &loadResult{Report: load.Middle(p.A), Floor: &floorResult{
		Report: load.Middle(p.B), Pairs: pairs,
		ChecksRatio: p.Ratio(load.ChecksPerSecond), ServerCPURatio: p.Ratio(load.ServerCPU), P99Ratio: p.Ratio(load.P99),
	}}, nil
}

// startFloor runs a floor in a process of its own, so that its processor time is its
// own, and returns the load for it.
func startFloor(ctx context.Context, c load.Config) (beside load.Config, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return c, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, "bench", "floor", "--protocol", string(c.Protocol))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return c, nil, fmt.Errorf("start a floor: %w", err)
	}
	stop = func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
	late := time.AfterFunc(floorWithin, cancel)
	address, err := bufio.NewReader(out).ReadString('\n')
	late.Stop()
	if err != nil {
		stop()
		return c, nil, fmt.Errorf("the floor does not start: %w", err)
	}
	c.Address, c.Server, c.Redis = strings.TrimSpace(address), load.ServerMeter{PID: cmd.Process.Pid}, nil
	return c, stop, nil
}

// newFloor serves a floor; `bench load --floor` starts it.
func newFloor(g *console.Globals) *cobra.Command {
	var protocol, listen string
	cmd := &cobra.Command{
		Use:     "floor",
		Example: "  aliquot bench floor --protocol grpc --listen 127.0.0.1:7600",
		Short:   "Serve constant answers, to measure the cost of a server without decisions",
		Long:    "Prints the address that it listens on. Answers every check alike until it is stopped.",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&protocol, "protocol", string(load.Connect), "connect, json, grpc, stream, rls or http")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "where to listen")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(load.Protocols[:], load.Protocol(protocol)) {
			return console.Usagef("--protocol %q: give one of %s", protocol, load.Protocols)
		}
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		fmt.Fprintln(g.Out, l.Addr())
		return floor.Serve(cmd.Context(), load.Protocol(protocol), l)
	}
	return cmd
}

func printLoad(w io.Writer, r *loadResult) {
	rows := [][]string{
		{"checks", strconv.FormatInt(r.Checks, 10), fmt.Sprintf("%.0f/s in %d calls of %s", r.ChecksPerSecond, r.Calls, r.Protocol)},
		{"allowed", strconv.FormatInt(r.Allowed, 10), counts(r.Modes)},
		{"denied", strconv.FormatInt(r.Denied, 10), ""},
		{"failed", strconv.FormatInt(r.Failed, 10), counts(r.Errors)},
		latencyRow("latency", r.Latency),
	}
	if r.Late.Max > 0 {
		rows = append(rows, latencyRow("sent late", r.Late))
	}
	rows = append(rows, []string{"server", console.Figure(r.ServerCPU), "processor seconds for a million checks"},
		[]string{"generator", console.Figure(r.GeneratorCPU), "likewise"})
	if r.RedisCPU > 0 {
		rows = append(rows, []string{"Redis", console.Figure(r.RedisCPU), "likewise"},
			[]string{"Redis calls", console.Number(r.RedisCallsPerCheck), "for a check"})
	}
	console.Columns(w, rows)
	if r.Floor != nil {
		fmt.Fprintln(w)
		printFloor(w, r.Floor)
	}
	for kind, example := range r.Examples {
		fmt.Fprintf(w, "%s, for example: %s\n", kind, example)
	}
}

func latencyRow(name string, l latency.Summary) []string {
	us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
	return []string{name, fmt.Sprintf("p50 %v", us(l.P50)), fmt.Sprintf("p90 %v  p99 %v  p99.9 %v  max %v", us(l.P90), us(l.P99), us(l.P999), us(l.Max))}
}

func printFloor(w io.Writer, f *floorResult) {
	console.Columns(w, [][]string{
		{"floor", fmt.Sprintf("%.0f checks/s", f.ChecksPerSecond), fmt.Sprintf("the server has %.3f of it, median of %d pairs", f.ChecksRatio, f.Pairs)},
		{"floor's p99", f.Latency.P99.Round(time.Microsecond).String(), fmt.Sprintf("the server's is %.2f of it", f.P99Ratio)},
		{"floor's processor", console.Figure(f.ServerCPU), fmt.Sprintf("s for a million checks; the server's is %.2f of it", f.ServerCPURatio)},
	})
}
