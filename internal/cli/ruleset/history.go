package ruleset

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newRulesHistory(g *console.Globals) *cobra.Command {
	var limit int32
	var before uint64
	var diffs bool
	cmd := &cobra.Command{
		Use:     "history",
		Example: "  aliquot rules history --limit 5 --diff",
		Short:   "List the versions of the rules, the latest first: who, when and why",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Int32Var(&limit, "limit", 20, "how many, at most 1000")
	cmd.Flags().Uint64Var(&before, "before", 0, "only versions below this one (default: from the latest)")
	cmd.Flags().BoolVar(&diffs, "diff", false, "show what each one changed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.RuleService().ListRuleVersions(ctx, &aliquotv1.ListRuleVersionsRequest{Limit: limit, Before: before})
		if err != nil {
			return g.Explain(err, console.ACoordinator, g.Coordinator())
		}
		return g.Print(answer, func(w io.Writer) { printVersions(w, answer.GetVersions(), diffs) })
	}
	return cmd
}

func printVersions(w io.Writer, versions []*aliquotv1.RuleVersion, diffs bool) {
	if !diffs {
		rows := [][]string{versionHead}
		for _, v := range versions {
			rows = append(rows, versionRow(v))
		}
		console.Columns(w, rows)
		return
	}
	for _, v := range versions {
		console.Columns(w, [][]string{versionHead, versionRow(v)})
		fmt.Fprintln(w, v.GetDiff())
	}
}

var versionHead = []string{"VERSION", "IN FORCE", "AUTHOR", "TIME", "COMMENT"}

func versionRow(v *aliquotv1.RuleVersion) []string {
	inForce := ""
	if v.GetInForce() {
		inForce = "yes"
	}
	comment := v.GetComment()
	if to := v.GetRollbackTo(); to != 0 {
		comment = fmt.Sprintf("[text of version %d] %s", to, comment)
	}
	return []string{strconv.FormatUint(v.GetVersion(), 10), inForce, console.OrDash(v.GetAuthor()), console.Instant(v.GetAppliedUnixMs()), comment}
}

// rulesDiff is the form of `rules diff` in JSON and YAML.
type rulesDiff struct {
	From string `json:"from"`
	To   string `json:"to"`
	Diff string `json:"diff"`
}

func newRulesDiff(g *console.Globals) *cobra.Command {
	var from, to uint64
	cmd := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "Show what a file or another version would change (- reads standard input)",
		Example: "  aliquot rules diff rules.yaml           # the version in force, and this file\n" +
			"  aliquot rules diff --from 5             # version 5, and the one in force\n" +
			"  aliquot rules diff --from 5 --to 7",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "the older version (default: the one in force)")
	cmd.Flags().Uint64Var(&to, "to", 0, "the later version, without FILE (default: the one in force)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && to != 0 {
			return console.Usagef("give FILE or --to, not both")
		}
		older, err := getRules(g, cmd, from)
		if err != nil {
			return err
		}
		out, before := rulesDiff{From: fmt.Sprintf("version %d", older.GetVersion())}, older.GetYaml()
		after := ""
		if len(args) == 1 {
			data, name, err := readRules(g, args[0])
			if err != nil {
				return err
			}
			out.To, after = name, string(data)
		} else {
			later, err := getRules(g, cmd, to)
			if err != nil {
				return err
			}
			out.To, after = fmt.Sprintf("version %d", later.GetVersion()), later.GetYaml()
		}
		out.Diff = udiff.Unified(out.From, out.To, before, after)
		return g.PrintValue(out, func(w io.Writer) { fmt.Fprint(w, out.Diff) })
	}
	return cmd
}

func newRulesRollback(g *console.Globals) *cobra.Command {
	var by changeFlags
	var expected uint64
	cmd := &cobra.Command{
		Use:               "rollback VERSION",
		Example:           "  aliquot rules rollback 7",
		ValidArgsFunction: g.Nth(0, console.RuleVersions),
		Short:             "Bring the text of an earlier version into force, as a new version",
		Args:              cobra.ExactArgs(1),
	}
	by.add(cmd)
	cmd.Flags().Uint64Var(&expected, "expected-version", 0, "roll back only if this version is in force (default: whichever is)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		version, err := versionArg(args[0])
		if err != nil {
			return err
		}
		request := &aliquotv1.RollbackRulesRequest{Version: version, Author: by.author, Comment: by.comment}
		if cmd.Flags().Changed("expected-version") {
			request.ExpectedVersion = &expected
		}
		return applyRuleChange(g, cmd, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
			return g.RuleService().RollbackRules(ctx, request)
		})
	}
	return cmd
}

func versionArg(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil || version == 0 {
		return 0, console.Usagef("version %q: give a number, as 'aliquot rules history' lists them", text)
	}
	return version, nil
}
