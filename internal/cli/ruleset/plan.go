package ruleset

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// maxWait is the longest that a coordinator waits for the regions.
const maxWait = 30 * time.Second

func newRulesPlan(g *console.Globals) *cobra.Command {
	var wait time.Duration
	var fail bool
	cmd := &cobra.Command{
		Use:     "plan FILE",
		Example: "  aliquot rules plan rules.yaml\n  aliquot rules plan rules.yaml --fail-if-denied",
		Short:   "Show which recent requests the rules in FILE would have denied or allowed (- reads standard input)",
		Long: "Shows how other rules would have decided the recent requests of the regions;\n" +
			"nothing changes. Every region replays a sample: up to ten minutes, and all requests\n" +
			"of the keys in it. It uses the rules that it follows and the rules in FILE: both start\n" +
			"with full buckets and the region's current shares. Keys are shown by their hashes.\n\n" +
			"Exits with 0 whatever it finds; with 3 if a request would be newly denied and\n" +
			"--fail-if-denied is set.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().DurationVar(&wait, "wait", 5*time.Second, "how long to wait for the regions, at most 30s")
	cmd.Flags().BoolVar(&fail, "fail-if-denied", false, "exit with 3 if a request would be newly denied")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wait <= 0 || wait > maxWait {
			return console.Usagef("--wait %v: give a positive duration, at most %v", wait, maxWait)
		}
		data, name, err := readRules(g, args[0])
		if err != nil {
			return err
		}
		if err := checkSendable(name, data); err != nil {
			return err
		}
		waiting := *g // as long as the regions may take, and as long as any other call
		waiting.Timeout += wait
		ctx, cancel := waiting.Call(cmd)
		defer cancel()
		answer, err := g.RuleService().PlanRules(ctx, &aliquotv1.PlanRulesRequest{
			Yaml: string(data), FileName: name, Wait: durationpb.New(wait),
		})
		if err != nil {
			return explainRefusal(err, waiting.Explain(err, console.ACoordinator, g.Coordinator()))
		}
		for _, w := range answer.GetWarnings() {
			fmt.Fprintf(g.Err, "warning: %s\n", w)
		}
		if err := g.Print(answer, func(w io.Writer) { printPlan(w, answer) }); err != nil {
			return err
		}
		if fail && answer.GetNewlyDeniedRequests() > 0 {
			return console.ErrDenied
		}
		return nil
	}
	return cmd
}

func printPlan(w io.Writer, p *aliquotv1.PlanRulesResponse) {
	if p.GetDiff() == "" {
		fmt.Fprintf(w, "the text is that of version %d\n", p.GetBaseVersion())
	}
	fmt.Fprintln(w, p.GetDiff())
	rows := [][]string{{"REGION", "REQUESTS", "KEYS", "OVER", "SAMPLE", ""}}
	for _, r := range p.GetRegions() {
		sample := "all keys"
		if r.GetOneIn() > 1 {
			sample = fmt.Sprintf("1 in %d keys", r.GetOneIn())
		}
		if r.GetOneIn() == 0 {
			sample = "-"
		}
		rows = append(rows, []string{r.GetRegion(), count(r.GetRequests()), count(r.GetKeys()), console.Duration(r.GetSpan()), sample, r.GetError()})
	}
	console.Columns(w, rows)
	fmt.Fprintln(w)
	if len(p.GetRules()) > 0 {
		rows = [][]string{{"RULE", "NEWLY DENIED KEYS", "REQUESTS", "NEWLY ALLOWED KEYS", "REQUESTS", "DENIED, SOME OF THEM"}}
		for _, r := range p.GetRules() {
			rows = append(rows, []string{r.GetRuleId(), count(r.GetNewlyDeniedKeys()), count(r.GetNewlyDeniedRequests()),
				count(r.GetNewlyAllowedKeys()), count(r.GetNewlyAllowedRequests()), console.OrDash(strings.Join(r.GetDeniedKeyHashes(), " "))})
		}
		console.Columns(w, rows)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, planVerdict(p))
}

// planVerdict is the plan in a sentence.
func planVerdict(p *aliquotv1.PlanRulesResponse) string {
	replayed := int64(0)
	for _, r := range p.GetRegions() {
		replayed += r.GetRequests()
	}
	switch {
	case replayed == 0:
		return "no recent request was replayed: this says nothing of the change"
	case p.GetNewlyDeniedRequests() == 0 && p.GetNewlyAllowedRequests() == 0:
		return fmt.Sprintf("nothing would change for the %d requests replayed", replayed)
	}
	return fmt.Sprintf("of %d requests replayed %d (%d keys) would be newly denied, %d (%d keys) newly allowed", replayed,
		p.GetNewlyDeniedRequests(), p.GetNewlyDeniedKeys(), p.GetNewlyAllowedRequests(), p.GetNewlyAllowedKeys())
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
