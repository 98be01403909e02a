package benchmark

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/bench"
	"aliquot/internal/cli/console"
)

// The limit of temporary rules if the flags name none: that of 'aliquot dev'.
const (
	compareCapacity = 300
	compareRefill   = 100
)

// compareEnforcements runs `bench rotate --compare`. Progress goes to standard error.
func compareEnforcements(g *console.Globals, cmd *cobra.Command, c bench.CompareConfig) error {
	if c.Limit == (bench.Limit{}) {
		c.Limit = bench.Limit{Capacity: compareCapacity, Refill: compareRefill}
	}
	if err := c.Validate(); err != nil {
		return console.AsUsage(err)
	}
	c.Progress = func(what string) { fmt.Fprintln(g.Err, what) }
	result, err := bench.Compare(cmd.Context(), c)
	if err != nil {
		return err
	}
	if err := g.PrintValue(result, func(w io.Writer) { printComparison(w, result) }); err != nil {
		return err
	}
	switch {
	case result.Exceeded():
		return console.ErrDenied
	case result.Failed() > 0:
		return fmt.Errorf("%d checks failed", result.Failed())
	}
	return nil
}

func printComparison(w io.Writer, c *bench.Comparison) {
	fmt.Fprintf(w, "C = %s, r = %s/s, %d regions, %v each\n\n", console.Number(c.Limit.Capacity), console.Number(c.Limit.Refill), c.Regions, c.Duration)
	rows := [][]string{{"ENFORCEMENT", "ADMITTED", "C + RT", "GAIN", "BOUND", "OF BOUND", "UTILISATION", "FAILED"}}
	for _, r := range c.Rows {
		rows = append(rows, []string{
			r.Enforcement, strconv.FormatInt(r.Admitted, 10), fmt.Sprintf("%.1f", r.StrictBound), fmt.Sprintf("%.4f", r.Gain),
			fmt.Sprintf("%.1f", r.Bound), fmt.Sprintf("%.4f", r.OfBound), fmt.Sprintf("%.4f", r.Utilisation),
			strings.TrimSpace(fmt.Sprintf("%d %s", r.Failed, counts(r.Errors))),
		})
	}
	console.Columns(w, rows)
	for _, r := range c.Rows {
		if r.Exceeded {
			fmt.Fprintf(w, "EXCEEDED: %s, %.4f of its bound in its worst interval of %v\n", r.Enforcement,
				max(r.OfBound, r.WorstOfBound.Gain), (r.WorstOfBound.To - r.WorstOfBound.From).Round(time.Millisecond))
		}
	}
}
