package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// pageSize is the number of budgets that one ListBudgets call asks for.
const pageSize = 1000

func newBudget(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "budget", Short: "Show how limits are divided over the regions"}
	cmd.AddCommand(newBudgetGet(g), newBudgetList(g), newBudgetWatch(g))
	return cmd
}

func newBudgetGet(g *console.Globals) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:               "get RULE KEY=VALUE...",
		ValidArgsFunction: g.Nth(0, console.RuleIDs),
		Short:             "Show one client's budget under one rule",
		Example:           "  aliquot budget get per-key api_key=sk_1",
		Args:              cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", `tenant (default "default")`)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := console.Attributes(args[1:])
		if err != nil {
			return err
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.Budgets().GetBudget(ctx, &aliquotv1.GetBudgetRequest{RuleId: args[0], Key: key, Namespace: namespace})
		if err != nil {
			return g.Explain(err, console.ACoordinator, g.Coordinator())
		}
		return g.Print(answer, func(w io.Writer) {
			printBudget(w, answer.Budget)
			printPromise(w, answer.Budget.GetPromise())
		})
	}
	return cmd
}

func newBudgetList(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:               "list [RULE]",
		Example:           "  aliquot budget list\n  aliquot budget list per-key --output json",
		ValidArgsFunction: g.Nth(0, console.RuleIDs),
		Short:             "List the budgets of all hot keys",
		Args:              cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := listBudgets(cmd.Context(), g, &aliquotv1.ListBudgetsRequest{RuleId: first(args), PageSize: pageSize})
			if err != nil {
				return g.Explain(err, console.ACoordinator, g.Coordinator())
			}
			return g.Print(all, func(w io.Writer) { printBudgets(w, all.Budgets) })
		},
	}
}

// listBudgets follows the pages to the end.
func listBudgets(ctx context.Context, g *console.Globals, r *aliquotv1.ListBudgetsRequest) (*aliquotv1.ListBudgetsResponse, error) {
	all := &aliquotv1.ListBudgetsResponse{Promises: map[string]*aliquotv1.Promise{}}
	client := g.Budgets()
	for {
		page, cancel := context.WithTimeout(ctx, g.Timeout)
		answer, err := client.ListBudgets(page, r)
		cancel()
		if err != nil {
			return nil, err
		}
		all.Budgets = append(all.Budgets, answer.Budgets...)
		maps.Copy(all.Promises, answer.Promises)
		if answer.NextPageToken == "" {
			return all, nil
		}
		r.PageToken = answer.NextPageToken
	}
}

func newBudgetWatch(g *console.Globals) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:               "watch [RULE [KEY=VALUE...]]",
		ValidArgsFunction: g.Nth(0, console.RuleIDs),
		Short:             "Watch budgets change: of all hot keys, of a rule, or of one client",
		Example:           "  aliquot budget watch per-key api_key=sk_1",
		Args:              cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", `tenant (default "default")`)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &aliquotv1.WatchBudgetsRequest{RuleId: first(args), Namespace: namespace}
		if len(args) > 1 {
			key, err := console.Attributes(args[1:])
			if err != nil {
				return err
			}
			r.Key = key
		}
		err := watch(cmd.Context(), g, r)
		if cmd.Context().Err() != nil { // stopped by its user
			return nil
		}
		return g.Explain(err, console.ACoordinator, g.Coordinator())
	}
	return cmd
}

// watchSilence is how long an open watch may bring nothing: three intervals of the coordinator's empty messages.
const watchSilence = 30 * time.Second

// errWatchSilent is returned for a watch that has brought nothing for watchSilence.
var errWatchSilent = fmt.Errorf("nothing came for %v; run the command again", watchSilence)

// watch prints the messages of a watch until ctx ends. The first message must come within the timeout of a call.
func watch(ctx context.Context, g *console.Globals, r *aliquotv1.WatchBudgetsRequest) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	first := time.AfterFunc(g.Timeout, func() { end(context.DeadlineExceeded) })
	defer first.Stop()
	silence := time.AfterFunc(g.Timeout+watchSilence, func() { end(errWatchSilent) })
	defer silence.Stop()
	stream, err := g.Budgets().WatchBudgets(ctx, r)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer stream.Close()
	for stream.Receive() {
		first.Stop()
		silence.Reset(watchSilence)
		m := stream.Msg()
		if err := g.Print(m, func(w io.Writer) {
			for _, b := range m.Budgets {
				printBudget(w, b)
				fmt.Fprintln(w)
			}
		}); err != nil {
			return err
		}
	}
	return cmp.Or(context.Cause(ctx), stream.Err(), errors.New("the coordinator ended the stream; run the command again"))
}

func printBudget(w io.Writer, b *aliquotv1.Budget) {
	l := b.GetLimit()
	state := "cold: every region has its floor"
	if b.GetHot() {
		state = "hot"
	}
	if b.GetEnforcement() == rules.Independent {
		state = "not coordinated: every region enforces the whole limit"
	}
	fmt.Fprintf(w, "rule %s (%s)  key %s  limit %d burst, %s/s  %s\npool %s  index %d\n",
		b.GetRuleId(), console.OrDash(b.GetEnforcement()), console.OrDash(b.GetKeyHash()), l.GetCapacity(), console.Number(l.GetRefillRate()), state,
		console.Percent(b.GetPoolShare()), b.GetAppliedIndex())
	most := console.Number(float64(l.GetCapacity()) + b.GetWorstCaseExcess())
	if l.GetCapacity() > 0 && b.GetBoundRate() == 0 { // slots: they come back when they are released
		fmt.Fprintf(w, "at most %s are in use at a time everywhere", most)
	} else {
		fmt.Fprintf(w, "in any t seconds at most %s + %s x t are admitted everywhere", most, console.Number(b.GetBoundRate()))
	}
	fmt.Fprintf(w, ": %s above the burst at the worst, %s seen\n", console.Number(b.GetWorstCaseExcess()), console.Number(b.GetExcessObserved()))
	if b.GetResidualExcess() > 0 || b.GetResidualExcessRate() > 0 {
		fmt.Fprintf(w, "and %s + %s x t more by regions that do not have the latest rules yet\n",
			console.Number(b.GetResidualExcess()), console.Number(b.GetResidualExcessRate()))
	}
	if b.GetResidualExcessUnknown() {
		fmt.Fprintln(w, "and perhaps more: not every region is known to have left rules that are forgotten here, or no leader answered")
	}
	rows := [][]string{{"REGION", "STATE", "SHARE", "BURST SHARE", "RATE/S", "BURST", "TOKENS", "ADMITTED", "OFFERED", "GENERATION", "LEASE"}}
	for _, r := range b.GetRegions() {
		rows = append(rows, []string{r.Region, r.State, console.Percent(r.Share), console.Percent(r.BurstShare), console.Number(r.Rate), console.Number(r.Burst),
			console.Number(r.Tokens), strconv.FormatInt(r.Admitted, 10), strconv.FormatInt(r.Offered, 10), console.OrDash(r.Generation), console.Duration(r.LeaseRemaining)})
	}
	console.Columns(w, rows)
}

// printPromise prints the bounds that a promise consists of, the excess first.
func printPromise(w io.Writer, p *aliquotv1.Promise) {
	if len(p.GetBounds()) == 0 {
		return // an older coordinator sends no promise
	}
	fmt.Fprintln(w)
	rows := [][]string{{"PROMISE", "AT WORST", "", "MEANING"}}
	for _, b := range p.GetBounds() {
		value := console.Figure(b.GetValue())
		if b.GetUnmeasured() {
			value = "?"
		}
		rows = append(rows, []string{b.GetName(), value, b.GetUnit(), b.GetMeaning()})
	}
	console.Columns(w, rows)
	fmt.Fprintf(w, "measured: %s\n", measured(p.GetMeasured()))
}

// measured returns the measurements that a promise is computed from, in one line.
func measured(m *aliquotv1.Measured) string {
	if len(m.GetRoundTrips()) == 0 && m.GetCommit() == nil {
		return "nothing yet"
	}
	parts := []string{"commit " + console.Duration(m.GetCommit())}
	for _, region := range slices.Sorted(maps.Keys(m.GetRoundTrips())) {
		parts = append(parts, "round trip to "+region+" "+console.Duration(m.GetRoundTrips()[region]))
	}
	return strings.Join(parts, ", ")
}

func printBudgets(w io.Writer, all []*aliquotv1.Budget) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no key is hot: every region enforces its floor of every limit")
		return
	}
	rows := [][]string{{"RULE", "KEY", "BURST", "RATE/S", "POOL", "SHARES"}}
	for _, b := range all {
		shares := ""
		for i, r := range b.Regions {
			if i > 0 {
				shares += "  "
			}
			shares += r.Region + " " + console.Percent(r.Share)
		}
		rows = append(rows, []string{b.RuleId, b.KeyHash, strconv.FormatInt(b.GetLimit().GetCapacity(), 10),
			console.Number(b.GetLimit().GetRefillRate()), console.Percent(b.PoolShare), shares})
	}
	console.Columns(w, rows)
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
