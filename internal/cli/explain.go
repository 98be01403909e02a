package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newExplain(g *console.Globals) *cobra.Command {
	var attrs, costs []string
	var decision, namespace string
	var cost int64
	cmd := &cobra.Command{
		Use:   "explain (KEY=VALUE... | --decision ID)",
		Short: "Show why a region decides as it does: rules, shares, tokens, lease; nothing is counted",
		Long: "Asks a region how it would decide a request now; that charges nothing. Or asks how a denial came\n" +
			"about (by the decision id in its answer; a daemon remembers some 4,000 of them).",
		Example: "  aliquot explain api_key=sk_1 endpoint=/v1/orders\n  aliquot explain --decision us-east-1y2p0ij32e8e7-4a",
		Args:    cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&attrs, "attr", nil, "an attribute of the request, key=value, as an argument says it")
	flags.StringArrayVar(&costs, "costs", nil, "what it consumes of another unit, unit=number; once for each")
	flags.Int64Var(&cost, "cost", 1, "how much the request consumes")
	flags.StringVar(&namespace, "namespace", "", `tenant (default "default")`)
	flags.StringVar(&decision, "decision", "", "the decision id of a denial, in place of a request")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		attrs = append(attrs, args...)
		if (decision == "") == (len(attrs) == 0) {
			return console.Usagef("give the attributes of a request as key=value, or --decision")
		}
		request := &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: decision}}
		if decision == "" {
			attributes, err := console.Attributes(attrs)
			if err != nil {
				return err
			}
			units, err := unitCosts(costs)
			if err != nil {
				return err
			}
			request.What = &aliquotv1.ExplainRequest_Request{Request: &aliquotv1.CheckRequest{
				Attributes: attributes, Cost: &cost, Namespace: namespace, Costs: units,
			}}
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.Limiter().Explain(ctx, request)
		if err != nil {
			return g.Explain(err, console.ARegion, g.Region())
		}
		return g.Print(answer, func(w io.Writer) { printExplanation(w, answer) })
	}
	return cmd
}

// unitCosts reads unit=number arguments.
func unitCosts(args []string) (map[string]int64, error) {
	texts, err := console.Attributes(args)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(texts))
	for unit, text := range texts {
		if out[unit], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, console.Usagef("--costs %s=%s: give a whole number", unit, text)
		}
	}
	return out, nil
}

func printExplanation(w io.Writer, e *aliquotv1.ExplainResponse) {
	d := e.GetDecision()
	fmt.Fprintf(w, "%s (%s) in %s at %s by rules version %d", verdict(d.GetAllowed()), d.GetMode(), e.GetRegion(), console.Instant(e.GetUnixMs()), e.GetRulesVersion())
	if d.GetRuleId() != "" {
		fmt.Fprintf(w, ", rule %s", d.GetRuleId())
	}
	fmt.Fprintln(w)
	if d.GetReason() != "" {
		fmt.Fprintln(w, d.GetReason())
	}
	if e.GetList() != "" {
		fmt.Fprintf(w, "%s entry %s\n", strings.TrimSuffix(e.GetList(), " entry"), e.GetListEntry())
	}
	if e.GetTier() != "" {
		fmt.Fprintf(w, "tier %s\n", e.GetTier())
	}
	l := e.GetLease()
	fmt.Fprintf(w, "lease %s, %s remaining, epoch %d\n", l.GetPhase(), console.Duration(l.GetRemaining()), l.GetEpoch())
	rows := [][]string{{"RULE", "DOES NOT APPLY BECAUSE"}}
	for _, r := range e.GetRules() {
		if r.GetMatched() {
			printMatched(w, r)
		} else {
			rows = append(rows, []string{r.GetRuleId(), r.GetWhyNot()})
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		console.Columns(w, rows)
	}
	if n := e.GetRulesOmitted(); n > 0 {
		fmt.Fprintf(w, "and %d rules more that do not apply\n", n)
	}
}

// printMatched prints one rule that applies.
func printMatched(w io.Writer, r *aliquotv1.RuleExplanation) {
	d := r.GetDecision()
	fmt.Fprintf(w, "\n%s  key %s %s", r.GetRuleId(), console.OrDash(strings.Join(r.GetKey(), ",")), r.GetKeyHash())
	if d == nil {
		fmt.Fprint(w, "\n  not asked: the cost is above another limit for good\n")
		return
	}
	fmt.Fprintf(w, ": %s", verdict(d.GetAllowed()))
	if d.GetShadow() {
		fmt.Fprint(w, ", but in shadow: it only watches")
	}
	fmt.Fprintf(w, "\n  limit   %s of %d, window %s, unit %s", d.GetAlgorithm(), d.GetLimit(), console.Duration(d.GetWindow()), d.GetUnit())
	if r.GetOverride() != "" {
		fmt.Fprintf(w, ", by the override %s", r.GetOverride())
		if e := r.GetOverrideEntry(); e != "" {
			fmt.Fprintf(w, ", an entry above the file (%s)", e)
		}
	}
	if r.GetSetForTier() != "" {
		fmt.Fprintf(w, ", set for the tier %s", r.GetSetForTier())
	}
	state := "cold: the floor"
	if r.GetHot() {
		state = "hot, generation " + r.GetGeneration()
	}
	fmt.Fprintf(w, "\n  here    %s of the rate, %s of the burst (%s)\n", console.Percent(r.GetRateShare()), console.Percent(r.GetBurstShare()), state)
	fmt.Fprintf(w, "  there is %s of %s, refilled at %s/s; remaining here %d (%s)\n", console.Figure(r.GetTokens()), console.Figure(r.GetCapacity()), console.Figure(r.GetRate()), d.GetRemaining(), d.GetMode())
	if r.GetEverywhere() > 0 {
		fmt.Fprintf(w, "  all     about %s are left in all regions, as they reported last\n", console.Figure(r.GetEverywhere()))
	}
	if !d.GetAllowed() && !d.GetNever() {
		fmt.Fprintf(w, "  retry   after %s: %s\n", console.Duration(d.GetRetryAfter()), r.GetRetryBasis())
	} else if r.GetRetryBasis() != "" {
		fmt.Fprintf(w, "  retry   never: %s\n", r.GetRetryBasis())
	}
	for _, o := range r.GetRegions() {
		fmt.Fprintf(w, "  other   %s holds %s of the rate, %s of the burst (%s)\n", o.GetRegion(), console.Percent(o.GetRateShare()), console.Percent(o.GetBurstShare()), o.GetState())
	}
	if r.GetRegionsError() != "" {
		fmt.Fprintf(w, "  others  unknown: %s\n", r.GetRegionsError())
	}
}
