package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newCheck(g *console.Globals) *cobra.Command {
	var c costFlags
	var also []string
	cmd := &cobra.Command{
		Use:     "check KEY=VALUE...",
		Short:   "Ask a region whether a request may pass; the request is counted",
		Long:    "Ask a region whether a request with these attributes may pass. The request is counted.\nExits with 3 when it is denied.",
		Example: "  aliquot check api_key=sk_1\n  aliquot check api_key=sk_1 endpoint=/v1/orders method=POST --cost 5",
		Args:    cobra.ArbitraryArgs,
	}
	c.add(cmd.Flags(), "")
	cmd.Flags().StringArrayVar(&also, "attr", nil, "an attribute of the request, key=value, as an argument says it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args)+len(also) == 0 {
			return console.Usagef("%s: give the attributes of the request as key=value, such as api_key=sk_1", cmd.UseLine())
		}
		attrs, err := console.Attributes(append(args, also...))
		if err != nil {
			return err
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.Limiter().Check(ctx, &aliquotv1.CheckRequest{Attributes: attrs, Cost: &c.cost, Costs: c.costs, Namespace: c.namespace})
		if err != nil {
			return g.Explain(err, console.ARegion, g.Region())
		}
		if err := g.Print(answer, func(w io.Writer) { printCheck(w, answer) }); err != nil {
			return err
		}
		if !answer.Allowed {
			return console.ErrDenied
		}
		return nil
	}
	return cmd
}

func printCheck(w io.Writer, a *aliquotv1.CheckResponse) {
	fmt.Fprintf(w, "%s (%s)\n", verdict(a.Allowed), a.Mode)
	if a.Reason != "" {
		fmt.Fprintln(w, a.Reason)
	}
	if len(a.Limits) == 0 {
		return
	}
	rows := [][]string{{"RULE", "VERDICT", "LIMIT", "REMAINING HERE", "RESET AFTER", "RETRY AFTER"}}
	for _, l := range a.Limits {
		retry := console.Duration(l.RetryAfter)
		if l.Never {
			retry = "never"
		}
		rows = append(rows, []string{l.RuleId, verdict(l.Allowed), strconv.FormatInt(l.Limit, 10),
			strconv.FormatInt(l.Remaining, 10), console.Duration(l.ResetAfter), retry})
	}
	console.Columns(w, rows)
	fmt.Fprintln(w, "remaining here is this region's part; 'aliquot explain' estimates what all regions have")
}

func verdict(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
