package benchmark

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/bench"
	"aliquot/internal/cli/console"
)

// streamDefaults is one client that sends up to 2,000 requests a second, ten in a call.
func streamDefaults() bench.Config {
	c := bench.DefaultConfig()
	c.Rate, c.Batch, c.Bucket = 2000, 10, 100*time.Millisecond
	return c
}

func newStep(g *console.Globals) *cobra.Command {
	var (
		c     = bench.StepConfig{Config: streamDefaults(), Before: 15 * time.Second, After: 15 * time.Second}
		attrs []string
		proto = string(c.Protocol)
	)
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Move a demand from one region to another at once",
		Long: `Sends all requests to the first region, and after --before to the second one. Prints
the time until the second region lastingly admits 95 % of the limit's rate, and
whether both regions together stayed within the limit's bound.

Exits with 3 when the client got more than its rule's bound, and with 1 when checks
failed.`,
		Example: `  aliquot bench step
  aliquot bench step --regions 127.0.0.1:7510,127.0.0.1:7520 --before 5s --after 5s`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	loadFlags(f, &c.Config, &attrs, &proto)
	f.DurationVar(&c.Before, "before", c.Before, "time in the first region")
	f.DurationVar(&c.After, "after", c.After, "time in the second region")
	f.Float64Var(&c.Rate, "rate", c.Rate, "requests a second; 0: as fast as it can")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.Protocol = bench.Protocol(proto)
		if err := completeStream(g, cmd, &c.Config, attrs, func() error { return c.Validate() }); err != nil {
			return err
		}
		r, err := bench.Step(cmd.Context(), c)
		if err != nil {
			return err
		}
		return printStream(g, r, r.Whole, func(w io.Writer) { printStep(w, r) })
	}
	return cmd
}

func printStep(w io.Writer, r *bench.StepReport) {
	printParts(w, r.Whole, [][]string{part("before", r.Before), part("after", r.After)},
		[]string{"converged", r.Converged.Round(time.Millisecond).String(), "until the second region kept up with 95 % of the rate"})
}

func newFlood(g *console.Globals) *cobra.Command {
	var (
		c       = bench.FloodConfig{Config: streamDefaults(), FloodBatch: 500, Quiet: 10 * time.Second}
		attrs   []string
		proto   = string(c.Protocol)
		regions int
	)
	c.Rate, c.Batch, c.Duration = 30, 1, 40*time.Second
	cmd := &cobra.Command{
		Use:   "flood",
		Short: "Retry without end in one region beside a demand in another",
		Long: `One client sends --rate requests a second to the second region. After --quiet it also
retries in the first one, many times in a call. Prints which part of min(its demand,
its part of the limit) the second region was served.

Exits with 3 when the client got more than its rule's bound, and with 1 when checks
failed.`,
		Example: `  aliquot bench flood
  aliquot bench flood --flood-rate 100000 --rate 30 --duration 60s`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	loadFlags(f, &c.Config, &attrs, &proto)
	f.Float64Var(&c.Rate, "rate", c.Rate, "requests a second in the second region")
	f.Float64Var(&c.FloodRate, "flood-rate", 0, "retries a second in the first region; 0: as fast as it can")
	f.IntVar(&c.FloodBatch, "flood-batch", c.FloodBatch, "retries in one call")
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long to send")
	f.DurationVar(&c.Quiet, "quiet", c.Quiet, "how long before the flood begins")
	f.IntVar(&regions, "parts", 0, "among how many regions the limit is divided (default as many as --regions names)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.Protocol = bench.Protocol(proto)
		if err := completeStream(g, cmd, &c.Config, attrs, func() error { return c.Validate() }); err != nil {
			return err
		}
		if regions == 0 {
			regions = len(c.Regions)
		}
		r, err := bench.Flood(cmd.Context(), c, regions)
		if err != nil {
			return err
		}
		return printStream(g, r, r.Whole, func(w io.Writer) { printFlood(w, r) })
	}
	return cmd
}

func printFlood(w io.Writer, r *bench.FloodReport) {
	printParts(w, r.Whole, [][]string{part("flood", r.Flood), part("other", r.Other)},
		[]string{"served", fmt.Sprintf("%.4f", r.Served), "the other region's admitted / min(its demand, its part of the limit)"})
}

// completeStream fills in what the flags leave open, and refuses what is impossible.
func completeStream(g *console.Globals, cmd *cobra.Command, c *bench.Config, attrs []string, validate func() error) error {
	if err := completeRotate(g, cmd, c, attrs); err != nil {
		return err
	}
	if err := validate(); err != nil {
		return console.AsUsage(err)
	}
	return nil
}

// printStream prints a report, and fails if the whole load got more than its bound.
func printStream(g *console.Globals, report any, whole *bench.Report, table func(io.Writer)) error {
	if err := g.PrintValue(report, table); err != nil {
		return err
	}
	return verdictOf(whole)
}

// printParts prints the parts of a load beside the whole of it, and what it came to.
func printParts(w io.Writer, whole *bench.Report, parts [][]string, result []string) {
	rows := [][]string{{"", "OFFERED", "ADMITTED", "ADMITTED/S", "FAILED"}}
	console.Columns(w, append(append(rows, parts...), part("whole", whole)))
	fmt.Fprintln(w)
	console.Columns(w, append(verdictRows(whole), result))
}

// part is one line about a part of a load.
func part(name string, r *bench.Report) []string {
	return []string{name, fmt.Sprint(r.Offered), fmt.Sprint(r.Admitted), fmt.Sprintf("%.1f", float64(r.Admitted)/r.Duration.Seconds()), fmt.Sprint(r.Failed)}
}

// verdictRows say how a load stands to its limit.
func verdictRows(r *bench.Report) [][]string {
	return [][]string{
		{"limit", fmt.Sprintf("C = %s, r = %s/s", console.Number(r.Limit.Capacity), console.Number(r.Limit.Refill)), r.Enforcement},
		{"gain", fmt.Sprintf("%.4f", r.Gain), "admitted / (C + r x t)"},
		{"worst interval", worst(r, r.WorstOfBound), boundOf(r)},
	}
}
