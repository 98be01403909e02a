// Package ruleset has the commands of aliquot about the rules and the entries that take precedence over
// them: validate, plan, apply, stage and roll back; block, allow and override; save, restore and import.
package ruleset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// maxRulesFile is more than a coordinator takes, so that its own answer is seen.
const maxRulesFile = 8 << 20

// NewRules returns the command rules with its subcommands.
func NewRules(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "Check, apply and show the rules, and their history"}
	cmd.AddCommand(newRulesValidate(g), newRulesPlan(g), newRulesApply(g), newRulesShow(g), newRulesHistory(g), newRulesDiff(g), newRulesRollback(g),
		newRulesPromote(g), newRulesAbort(g))
	return cmd
}

// openInput opens a file, or standard input for the path -, and says what to call it in messages.
func openInput(g *console.Globals, path string) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(g.In), "<stdin>", nil
	}
	in, err = os.Open(path)
	return in, path, err
}

// readRules reads a file and says what to call it in positions.
func readRules(g *console.Globals, path string) (data []byte, name string, err error) {
	in, name, err := openInput(g, path)
	if err != nil {
		return nil, "", fmt.Errorf("rules file: %w", err)
	}
	defer in.Close()
	data, err = io.ReadAll(io.LimitReader(in, maxRulesFile+1))
	if err != nil {
		return nil, "", fmt.Errorf("rules file %s: %w", name, err)
	}
	if len(data) > maxRulesFile {
		return nil, "", fmt.Errorf("rules file %s: it has more than %d bytes; a rules file has at most %d", name, maxRulesFile, rules.MaxFileBytes)
	}
	return data, name, nil
}

// checkSendable refuses a text that no message can carry, with its place. A coordinator could not say what is wrong.
func checkSendable(name string, data []byte) error {
	if len(data) <= rules.MaxFileBytes && utf8.Valid(data) {
		return nil
	}
	_, _, err := rules.Parse(name, data)
	if err == nil {
		err = fmt.Errorf("%s: the file is not UTF-8; save it as UTF-8", name)
	}
	return refusedRules(err, err.Error())
}

// refusedRules is the error for rules that are wrong. why has the places of the problems, and text says them.
func refusedRules(why error, text string) error {
	return console.Reword(why, "the rules were refused, nothing changed:\n%s", text)
}

func newRulesApply(g *console.Globals) *cobra.Command {
	var by changeFlags
	var in stageFlags
	var expected uint64
	var denyAll bool
	cmd := &cobra.Command{
		Use:     "apply FILE",
		Example: "  aliquot rules apply rules.yaml --comment \"more for partners\"\n  aliquot rules apply rules.yaml --stage-regions eu-west --promote-after 10m --halt-above 0.05",
		Short:   "Replace all rules; in force in every region within 2 s (- reads standard input)",
		Args:    cobra.ExactArgs(1),
	}
	by.add(cmd)
	in.add(cmd)
	cmd.Flags().Uint64Var(&expected, "expected-version", 0, "apply only if this version is in force (default: whichever is)")
	cmd.Flags().BoolVar(&denyAll, "allow-deny-all", false, "apply also a rule that denies every request (limit: 0)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, name, err := readRules(g, args[0])
		if err != nil {
			return err
		}
		if err := checkSendable(name, data); err != nil {
			return err
		}
		stage, err := in.stage(cmd)
		if err != nil {
			return err
		}
		request := &aliquotv1.ApplyRulesRequest{Yaml: string(data), FileName: name, Author: by.author, Comment: by.comment, Stage: stage, AllowDenyAll: denyAll}
		if cmd.Flags().Changed("expected-version") {
			request.ExpectedVersion = &expected
		}
		where := ""
		if stage != nil {
			where = " in " + strings.Join(stage.GetRegions(), ", ") + " only"
		}
		return applyRuleChangeIn(g, cmd, where, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
			return g.RuleService().ApplyRules(ctx, request)
		})
	}
	return cmd
}

// changeFlags say who changes the rules, and why.
type changeFlags struct{ author, comment string }

func (f *changeFlags) add(cmd *cobra.Command) {
	f.addAuthor(cmd)
	cmd.Flags().StringVar(&f.comment, "comment", "", "why, for the history")
}

func (f *changeFlags) addAuthor(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.author, "author", whoami(), "who changes the rules")
	cmd.Flags().Lookup("author").DefValue = "USER@HOST" // the help is the same on every machine
}

// whoami is who changes the rules unless they say so: user@host, as far as either is
// known. A container or a timer has no $USER.
func whoami() string {
	name := os.Getenv("USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return name + "@" + host
	}
	return name
}

// applyRuleChange makes a change, and prints what it changed.
func applyRuleChange(g *console.Globals, cmd *cobra.Command, change func(context.Context) (*aliquotv1.ApplyRulesResponse, error)) error {
	return applyRuleChangeIn(g, cmd, "", change)
}

// applyRuleChangeIn is applyRuleChange with a word of where the change holds.
func applyRuleChangeIn(g *console.Globals, cmd *cobra.Command, where string, change func(context.Context) (*aliquotv1.ApplyRulesResponse, error)) error {
	ctx, cancel := g.Call(cmd)
	defer cancel()
	answer, err := change(ctx)
	if err != nil {
		return explainChange(g, err)
	}
	for _, w := range answer.GetWarnings() {
		fmt.Fprintf(g.Err, "warning: %s\n", w)
	}
	return g.Print(answer, func(w io.Writer) {
		fmt.Fprint(w, answer.GetDiff())
		printEntryChange(w, answer.GetEntryChange())
		printTierRules(w, answer.GetTierRules())
		fmt.Fprintf(w, "version %d is in force%s\n", answer.GetVersion(), where)
	})
}

// explainChange explains the error of a change of rules.
func explainChange(g *console.Globals, err error) error {
	return explainRefusal(err, g.ExplainChange(err, "aliquot rules history"))
}

// explainRefusal explains the error of rules that a coordinator refused, and keeps a list of problems a list. It returns
// otherwise for any other error.
func explainRefusal(err, otherwise error) error {
	if remote, ok := errors.AsType[*connect.Error](err); ok {
		switch remote.Code() {
		case connect.CodeInvalidArgument:
			if console.AboutAFile(remote) {
				return refusedRules(err, remote.Message())
			}
			return console.Reword(err, "nothing changed: %s", remote.Message())
		case connect.CodeFailedPrecondition:
			return console.Reword(err, "nothing changed: %s; see 'aliquot rules show'", remote.Message())
		case connect.CodeNotFound:
			where := "; see 'aliquot rules show'"
			if strings.Contains(remote.Message(), "`aliquot ") { // the message names the command that lists what there is
				where = ""
			}
			return console.Reword(err, "nothing changed: %s%s", remote.Message(), where)
		}
	}
	return otherwise
}

func newRulesShow(g *console.Globals) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:     "show",
		Example: "  aliquot rules show --version 7 > rules.yaml",
		Short:   "Print the rules in force or another version (its number goes to standard error)",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "a version of the history (default: the one in force)")
	_ = cmd.RegisterFlagCompletionFunc("version", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return g.Complete(cmd, console.RuleVersions)
	}) // errs only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		answer, err := getRules(g, cmd, version)
		if err != nil {
			return err
		}
		return g.Print(answer, func(w io.Writer) {
			fmt.Fprintln(g.Err, ruleOrigin(answer))
			if r := answer.GetRollout(); r != nil {
				fmt.Fprintln(g.Err, rolloutText(r))
			}
			fmt.Fprint(w, answer.Yaml)
		})
	}
	return cmd
}

// getRules reads one version of the rules; 0 is the one in force.
func getRules(g *console.Globals, cmd *cobra.Command, version uint64) (*aliquotv1.GetRulesResponse, error) {
	ctx, cancel := g.Call(cmd)
	defer cancel()
	answer, err := g.RuleService().GetRules(ctx, &aliquotv1.GetRulesRequest{Version: version})
	return answer, g.Explain(err, console.ACoordinator, g.Coordinator())
}

func ruleOrigin(r *aliquotv1.GetRulesResponse) string {
	if r.Version == 0 {
		return "no rules were applied yet; apply some with 'aliquot rules apply FILE'"
	}
	text := fmt.Sprintf("version %d", r.Version)
	if r.Author != "" {
		text += " by " + r.Author
	}
	if r.AppliedUnixMs != 0 {
		text += " at " + console.Instant(r.AppliedUnixMs)
	}
	if r.Comment != "" {
		text += ": " + r.Comment
	}
	return text
}
