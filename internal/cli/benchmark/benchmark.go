// Package benchmark has the commands of aliquot bench. They put load on regions and print what came of
// it; package bench measures.
package benchmark

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aliquot/internal/bench"
	"aliquot/internal/cli/console"
)

// New returns the command bench with its subcommands.
func New(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Put load on the regions and compare what they admit with the limit"}
	cmd.AddCommand(newLoad(g), newFloor(g), newRotate(g), newStep(g), newFlood(g))
	return cmd
}

func newRotate(g *console.Globals) *cobra.Command {
	var (
		c       = bench.DefaultConfig()
		attrs   []string
		pattern = string(c.Pattern)
		proto   = string(c.Protocol)
		compare []string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Clients that rotate over the regions to get more than their limit",
		Long: `Sends requests of one or many clients to the regions in turn. Compares the admitted
cost with the bound C + r x t of a strict limit, over the whole run (gain) and over
every interval in it (worst interval). An interval counts only the requests that were
sent and answered within it. The bound is N x C + r x t for an elastic rule over N
regions, and N x (C + r x t) if the regions are independent; 'of bound' is
admitted / this bound. Utilisation is admitted / min(bound, offered).

With --compare one command sends the same load under several enforcements. It adds
temporary rules for keys of its own, and removes them afterwards, also on Ctrl-C.

Exits with 3 when a client got more than its rule's bound, and with 1 when checks
failed.`,
		Example: `  aliquot bench rotate
  aliquot bench rotate --compare strict,elastic,independent --duration 10s
  aliquot bench rotate --clients 2000 --rate 5 --duration 60s
  aliquot bench rotate --pattern stay --regions 127.0.0.1:7510`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	loadFlags(f, &c, &attrs, &proto)
	f.IntVar(&c.Clients, "clients", c.Clients, "how many clients send at once")
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long to send")
	f.Float64Var(&c.Rate, "rate", c.Rate, "requests a second of each client; 0: as fast as it can")
	f.StringVar(&pattern, "pattern", pattern, "round-robin, random, stay or dwell")
	f.DurationVar(&c.Dwell, "dwell", c.Dwell, "with --pattern dwell: time in one region")
	f.DurationVar(&c.Rest, "rest", 0, "pause of a client that is denied everywhere, before its next burst")
	f.StringSliceVar(&compare, "compare", nil, "enforcements to compare under temporary rules with --capacity (default 300) and --refill (default 100)")
	f.IntVar(&c.Workers, "workers", c.Workers, "calls under way at once; 0: two a region, up to 64 for many clients")
	f.DurationVar(&c.Bucket, "bucket", c.Bucket, "width of the time series' steps")
	f.BoolVar(&asJSON, "json", false, "same as --output json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.Pattern, c.Protocol = bench.Pattern(pattern), bench.Protocol(proto)
		if asJSON {
			g.Output = "json"
		}
		if err := completeRotate(g, cmd, &c, attrs); err != nil {
			return err
		}
		if cmd.Flags().Changed("compare") {
			return compareEnforcements(g, cmd, bench.CompareConfig{Config: c, Enforcements: compare})
		}
		if err := c.Validate(); err != nil {
			return console.AsUsage(err)
		}
		report, err := bench.Rotate(cmd.Context(), c)
		if err != nil {
			return err
		}
		if err := g.PrintValue(report, func(w io.Writer) { printReport(w, report) }); err != nil {
			return err
		}
		return verdictOf(report)
	}
	return cmd
}

// loadFlags are those of every load.
func loadFlags(f *pflag.FlagSet, c *bench.Config, attrs *[]string, proto *string) {
	f.StringSliceVar(&c.Regions, "regions", nil, "addresses of the regions (default the three of 'aliquot dev')")
	f.StringArrayVar(attrs, "attr", nil, "attribute key=value, repeatable; {run} and {client} are filled in (default api_key=bench-{run}-{client})")
	f.StringVar(&c.Namespace, "namespace", "", `tenant (default "default")`)
	f.Float64Var(&c.Limit.Capacity, "capacity", 0, "C of the bound (default: asked of a coordinator)")
	f.Float64Var(&c.Limit.Refill, "refill", 0, "r of the bound, tokens a second (default: asked of a coordinator)")
	f.StringVar(&c.Enforcement, "enforcement", "", "with --capacity and --refill: strict, elastic or independent (default strict)")
	f.StringVar(&c.Coordinator, "coordinator", "", "coordinator to ask for the limit (default --addr)")
	f.IntVar(&c.Batch, "batch", c.Batch, "requests in one call")
	f.StringVar(proto, "protocol", *proto, "connect or grpc")
}

// completeRotate fills in what other flags say.
func completeRotate(g *console.Globals, cmd *cobra.Command, c *bench.Config, attrs []string) error {
	if cmd.Flags().Changed("timeout") {
		c.Timeout = g.Timeout
	}
	if len(attrs) > 0 {
		given, err := console.Attributes(attrs)
		if err != nil {
			return err
		}
		c.Attributes = given
	}
	if c.Coordinator == "" {
		c.Coordinator = g.Coordinator()
	}
	if len(c.Regions) == 0 {
		c.Regions = bench.DefaultConfig().Regions
		if c.Protocol == bench.GRPC {
			c.Regions = []string{"127.0.0.1:7501", "127.0.0.1:7511", "127.0.0.1:7521"}
		}
	}
	if (c.Limit.Capacity > 0) != (c.Limit.Refill > 0) {
		return console.Usagef("give both --capacity and --refill, or neither")
	}
	return nil
}

// verdictOf is the exit of a finished run.
func verdictOf(r *bench.Report) error {
	switch {
	case r.Exceeded():
		return console.ErrDenied
	case r.Offered == 0:
		return errors.New("no check was answered")
	case r.Failed > 0:
		return fmt.Errorf("%d checks failed", r.Failed)
	}
	return nil
}

func printReport(w io.Writer, r *bench.Report) {
	rows := [][]string{
		{"run", r.Run, fmt.Sprintf("%d clients, %s", r.Clients, r.Duration.Round(time.Millisecond))},
		{"limit", fmt.Sprintf("C = %s", console.Number(r.Limit.Capacity)), fmt.Sprintf("r = %s/s, %s", console.Number(r.Limit.Refill), r.Enforcement)},
		{"offered", strconv.FormatInt(r.Offered, 10), fmt.Sprintf("%.0f/s", float64(r.Offered)/r.Duration.Seconds())},
		{"admitted", strconv.FormatInt(r.Admitted, 10), fmt.Sprintf("%.1f/s", float64(r.Admitted)/r.Duration.Seconds())},
		{"denied", strconv.FormatInt(r.Denied, 10), ""},
		{"failed", strconv.FormatInt(r.Failed, 10), counts(r.Errors)},
		{"decided by", counts(r.Modes), ""},
		{"C + r x t", fmt.Sprintf("%.1f", r.StrictBound), "of the client with the largest gain"},
		{"gain", fmt.Sprintf("%.4f", r.Gain), "largest admitted / (C + r x t) of any client"},
		{"worst interval", worst(r, r.Worst), ""},
		{"bound", fmt.Sprintf("%.1f", r.Bound), boundOf(r)},
		{"of bound", fmt.Sprintf("%.4f", r.OfBound), "largest admitted / bound of any client"},
	}
	if r.Promised != r.Limit {
		rows = append(rows, []string{"worst interval", worst(r, r.WorstOfBound), ""})
	}
	console.Columns(w, append(rows, [][]string{
		{"excess", fmt.Sprintf("%.1f", r.Excess), "most admitted above C + r x t in any interval"},
		{"utilisation", fmt.Sprintf("%.4f", r.Utilisation.Min), fmt.Sprintf("least of the clients; median %.4f", r.Utilisation.Median)},
		{"after 1 s", fmt.Sprintf("%.4f", r.Steady.Min), fmt.Sprintf("least of the clients; median %.4f", r.Steady.Median)},
		{"latency", fmt.Sprintf("p50 %v", round(r.Latency.P50)), fmt.Sprintf("p90 %v  p99 %v  max %v", round(r.Latency.P90), round(r.Latency.P99), round(r.Latency.Max))},
	}...))
	fmt.Fprintln(w)
	printRegions(w, r)
	fmt.Fprintln(w)
	printSeries(w, r)
	for _, kind := range slices.Sorted(maps.Keys(r.Examples)) {
		fmt.Fprintf(w, "%s, for example: %s\n", kind, r.Examples[kind])
	}
	if r.Exceeded() {
		fmt.Fprintf(w, "EXCEEDED: a client got more than the bound, %s\n", boundOf(r))
	}
}

// boundOf is the formula of a rule's own bound, with its numbers.
func boundOf(r *bench.Report) string {
	return fmt.Sprintf("%s + %s x t: %s", console.Number(r.Promised.Capacity), console.Number(r.Promised.Refill), r.Enforcement)
}

func worst(r *bench.Report, w bench.Window) string {
	if !r.WindowsChecked {
		return "not checked: too many admissions"
	}
	return fmt.Sprintf("%.4f  (%d admitted in %v from %v)", w.Gain, w.Admitted,
		(w.To - w.From).Round(time.Millisecond), w.From.Round(time.Millisecond))
}

func printRegions(w io.Writer, r *bench.Report) {
	rows := [][]string{{"REGION", "OFFERED", "ADMITTED", "FAILED"}}
	for _, region := range r.Regions {
		rows = append(rows, []string{region.Address, strconv.FormatInt(region.Offered, 10),
			strconv.FormatInt(region.Admitted, 10), strings.TrimSpace(fmt.Sprintf("%d %s", region.Failed, counts(region.Errors)))})
	}
	console.Columns(w, rows)
}

// maxRows of the time series are printed; JSON has them all.
const maxRows = 120

func printSeries(w io.Writer, r *bench.Report) {
	rows := [][]string{{"FROM", "OFFERED", "ADMITTED", "FAILED"}}
	for i, b := range r.Series[:min(len(r.Series), maxRows)] {
		rows = append(rows, []string{(time.Duration(i) * r.BucketWidth).String(), strconv.FormatInt(b.Offered, 10),
			strconv.FormatInt(b.Admitted, 10), strconv.FormatInt(b.Errors, 10)})
	}
	console.Columns(w, rows)
}

func counts(m map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
