package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Limits of what top reads and shows.
const (
	topInterval    = 2 * time.Second
	minTopInterval = time.Second // busy regions report twice a second
	topShown       = 20
)

// clearScreen puts the cursor of a terminal at the top of an empty screen.
const clearScreen = "\x1b[H\x1b[2J"

// usage is how much of one limit is used, over the time between two readings.
type usage struct {
	RuleID  string `json:"ruleId"`
	KeyHash string `json:"keyHash"`
	// Capacity and RefillRate are the limit.
	Capacity   int64   `json:"capacity"`
	RefillRate float64 `json:"refillRate"`
	// Offered and Admitted are rates of cost.
	Offered  float64 `json:"offeredPerSecond"`
	Admitted float64 `json:"admittedPerSecond"`
	// Use is Offered divided by RefillRate. Above 1 the limit refuses requests in the long run. It is 0 for
	// a limit that earns nothing by itself, such as concurrency.
	Use float64 `json:"use"`
	// PoolShare is the part that no region holds.
	PoolShare float64       `json:"poolShare"`
	Regions   []regionUsage `json:"regions"`
}

// regionUsage is the part of one region.
type regionUsage struct {
	Region   string  `json:"region"`
	Share    float64 `json:"share"`
	Tokens   float64 `json:"tokens"`
	Offered  float64 `json:"offeredPerSecond"`
	Admitted float64 `json:"admittedPerSecond"`
	State    string  `json:"state"`
}

func newTop(g *console.Globals) *cobra.Command {
	var once bool
	n, interval := topShown, topInterval
	cmd := &cobra.Command{
		Use:               "top [RULE]",
		Example:           "  aliquot top\n  aliquot top per-key --once --output json",
		ValidArgsFunction: g.Nth(0, console.RuleIDs),
		Short:             "Show the hottest limits: how much of each is used, in which region",
		Long: "Shows the hot keys whose limits are used most, refreshed until it is stopped: by the cost offered, relative to the\n" +
			"limit's rate, over the last --interval. 'aliquot explain' shows the hash of a client. A key of which no region has used\n" +
			"half of its floor is not hot, and not listed.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one table and exit")
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many limits")
	cmd.Flags().DurationVar(&interval, "interval", interval, "time over which rates are taken, 1s at least")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return console.Usagef("--number %d: give 1 or more", n)
		}
		if interval < minTopInterval {
			return console.Usagef("--interval %v: give %v or more; regions report twice a second", interval, minTopInterval)
		}
		err := top(cmd.Context(), g, &aliquotv1.ListBudgetsRequest{RuleId: first(args), PageSize: pageSize}, once, n, interval)
		if cmd.Context().Err() != nil { // stopped by its user
			return nil
		}
		return g.Explain(err, console.ACoordinator, g.Coordinator())
	}
	return cmd
}

// top prints usages until ctx ends, or once.
func top(ctx context.Context, g *console.Globals, r *aliquotv1.ListBudgetsRequest, once bool, n int, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var before []*aliquotv1.Budget
	var readAt time.Time
	for {
		r.PageToken = ""
		now, err := listBudgets(ctx, g, r)
		if err != nil {
			return err
		}
		at := time.Now()
		if !readAt.IsZero() {
			used := usages(before, now.Budgets, at.Sub(readAt).Seconds())
			shown := map[string]any{"hotKeys": len(used), "limits": used[:min(n, len(used))]}
			if err := g.PrintValue(shown, func(w io.Writer) { printTop(w, used, n, !once && console.IsTerminal(w)) }); err != nil || once {
				return err
			}
		}
		before, readAt = now.Budgets, at
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// usages returns the use of limits between two readings of budgets, seconds apart. The limits that are used
// most come first.
func usages(before, after []*aliquotv1.Budget, seconds float64) []usage {
	type id struct{ rule, key, region string }
	earlier := map[id]*aliquotv1.RegionBudget{}
	for _, b := range before {
		for _, r := range b.GetRegions() {
			earlier[id{b.GetRuleId(), b.GetKeyHash(), r.GetRegion()}] = r
		}
	}
	out := make([]usage, 0, len(after))
	for _, b := range after {
		u := usage{
			RuleID: b.GetRuleId(), KeyHash: b.GetKeyHash(), Capacity: b.GetLimit().GetCapacity(), RefillRate: b.GetLimit().GetRefillRate(),
			PoolShare: b.GetPoolShare(), Regions: []regionUsage{},
		}
		for _, r := range b.GetRegions() {
			was := earlier[id{b.GetRuleId(), b.GetKeyHash(), r.GetRegion()}]
			part := regionUsage{
				Region: r.GetRegion(), Share: r.GetShare(), Tokens: r.GetTokens(), State: r.GetState(),
				Offered: increase(was.GetOffered(), r.GetOffered()) / seconds, Admitted: increase(was.GetAdmitted(), r.GetAdmitted()) / seconds,
			}
			u.Offered += part.Offered
			u.Admitted += part.Admitted
			u.Regions = append(u.Regions, part)
		}
		if u.RefillRate > 0 {
			u.Use = u.Offered / u.RefillRate
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b usage) int {
		return cmp.Or(cmp.Compare(b.Use, a.Use), cmp.Compare(b.Offered, a.Offered), cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.KeyHash, b.KeyHash))
	})
	return out
}

// increase returns the increase of a counter. A counter that is lower than before has begun again at 0.
func increase(before, after int64) float64 {
	if after < before {
		return float64(after)
	}
	return float64(after - before)
}

func printTop(w io.Writer, all []usage, n int, clear bool) {
	if clear {
		fmt.Fprint(w, clearScreen)
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "no key is hot: every region enforces its floor of every limit")
		return
	}
	rows := [][]string{{"RULE", "KEY", "LIMIT", "OFFERED/S", "ADMITTED/S", "USE", "POOL", "REGION: SHARE, ADMITTED/S"}}
	for _, u := range all[:min(n, len(all))] {
		var parts []string
		for _, r := range u.Regions {
			parts = append(parts, fmt.Sprintf("%s: %s, %s", r.Region, console.Percent(r.Share), console.Figure(r.Admitted)))
		}
		rows = append(rows, []string{
			u.RuleID, u.KeyHash, fmt.Sprintf("%d, %s/s", u.Capacity, console.Figure(u.RefillRate)), console.Figure(u.Offered), console.Figure(u.Admitted),
			console.Percent(u.Use), console.Percent(u.PoolShare), strings.Join(parts, "  "),
		})
	}
	console.Columns(w, rows)
	if more := len(all) - n; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
