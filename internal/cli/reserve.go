package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// costFlags are what a request consumes.
type costFlags struct {
	cost      int64
	costs     map[string]int64
	namespace string
}

func (c *costFlags) add(f *pflag.FlagSet, absent string) {
	f.Int64Var(&c.cost, "cost", 1, "how many requests"+absent)
	f.StringToInt64Var(&c.costs, "costs", nil, "how much of other units, as tokens_in=300,tokens_out=500"+absent)
	f.StringVar(&c.namespace, "namespace", "", `tenant (default "default")`)
}

func newReserve(g *console.Globals) *cobra.Command {
	var (
		c   costFlags
		id  string
		ttl time.Duration
	)
	cmd := &cobra.Command{
		Use:     "reserve KEY=VALUE...",
		Short:   "Ask a region whether a request with estimated costs may pass",
		Long:    "Ask a region whether a request with these attributes may pass. Its costs are an estimate;\n'aliquot settle ID' replaces them by the actual use, with the ID that this prints: the one of\n--id, made so that another caller cannot guess it. Exits with 3 when it is denied.",
		Example: "  aliquot reserve api_key=sk_1 --costs tokens_in=300,tokens_out=500 --id call-1\n  aliquot settle call-1.XNkV-syy6UpwgYQDRbkL7Q --costs tokens_out=120",
		Args:    cobra.MinimumNArgs(1),
	}
	c.add(cmd.Flags(), "")
	cmd.Flags().StringVar(&id, "id", "", "makes a repeated call harmless (default: a new one)")
	cmd.Flags().DurationVar(&ttl, "ttl", time.Minute, "time after which the estimate counts as the use, 1s to 1h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		attrs, err := console.Attributes(args)
		if err != nil {
			return err
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.Limiter().Reserve(ctx, &aliquotv1.ReserveRequest{
			Attributes: attrs, Cost: &c.cost, Costs: c.costs, Namespace: c.namespace, Id: id, Ttl: durationpb.New(ttl),
		})
		if err != nil {
			return g.Explain(err, console.ARegion, g.Region())
		}
		err = g.Print(answer, func(w io.Writer) {
			printCheck(w, answer.Decision)
			if answer.Id != "" {
				fmt.Fprintf(w, "reserved as %s until %s\n", answer.Id, time.UnixMilli(answer.ExpiresUnixMs).UTC().Format(time.RFC3339))
			}
		})
		if err == nil && !answer.Decision.GetAllowed() {
			return console.ErrDenied
		}
		return err
	}
	return cmd
}

func newSettle(g *console.Globals) *cobra.Command {
	var c costFlags
	cmd := &cobra.Command{
		Use:     "settle ID",
		Short:   "End a reservation with the actual use",
		Long:    "Ends the reservation of the ID that 'aliquot reserve' printed with the actual use. The rest goes back; use above the reservation is a debt.\nA unit that is not named was used as estimated. A repeated call changes nothing.",
		Example: "  aliquot settle call-1.XNkV-syy6UpwgYQDRbkL7Q --costs tokens_out=120\n  aliquot settle 4Q6SNBF5RXBKVXOZPDXYEZBHUA --cost 0",
		Args:    cobra.ExactArgs(1),
	}
	c.add(cmd.Flags(), " (the estimate)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := g.Call(cmd)
		defer cancel()
		in := &aliquotv1.SettleRequest{Id: args[0], Namespace: c.namespace, Costs: c.costs}
		if cmd.Flags().Changed("cost") {
			in.Cost = &c.cost
		}
		answer, err := g.Limiter().Settle(ctx, in)
		if err != nil {
			return g.Explain(err, console.ARegion, g.Region())
		}
		return g.Print(answer, func(w io.Writer) { printSettled(w, answer) })
	}
	return cmd
}

func printSettled(w io.Writer, a *aliquotv1.SettleResponse) {
	fmt.Fprintln(w, a.State)
	if len(a.Limits) == 0 {
		return
	}
	rows := [][]string{{"RULE", "UNIT", "RESERVED", "USED", "REFUNDED", "CHARGED"}}
	for _, l := range a.Limits {
		row := []string{l.RuleId, l.Unit}
		for _, n := range []int64{l.Reserved, l.Used, l.Refunded, l.Charged} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	console.Columns(w, rows)
}
