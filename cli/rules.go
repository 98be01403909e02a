package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// maxRulesFile is more than a coordinator takes, so that its own answer is seen.
const maxRulesFile = 8 << 20

func newRules(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "Check, apply and show the rules"}
	cmd.AddCommand(newRulesValidate(g), newRulesApply(g), newRulesShow(g))
	return cmd
}

func (g *globals) warn(warnings []rules.Warning) {
	for _, w := range warnings {
		fmt.Fprintf(g.Err, "warning: %s\n", w)
	}
}

// readRules reads a file and says what to call it in positions.
func (g *globals) readRules(path string) (data []byte, name string, err error) {
	in, name := g.In, "<stdin>"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, "", fmt.Errorf("rules file: %w", err)
		}
		defer f.Close()
		in, name = f, path
	}
	data, err = io.ReadAll(io.LimitReader(in, maxRulesFile))
	if err != nil {
		return nil, "", fmt.Errorf("rules file %s: %w", name, err)
	}
	return data, name, nil
}

func newRulesApply(g *globals) *cobra.Command {
	var (
		expected uint64
		author   string
	)
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace all rules; in force in every region within 2 s (- reads standard input)",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().Uint64Var(&expected, "expected-version", 0, "apply only if this version is in force (default: whichever is)")
	cmd.Flags().StringVar(&author, "author", os.Getenv("USER"), "who changes the rules")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, name, err := g.readRules(args[0])
		if err != nil {
			return err
		}
		request := &aliquotv1.ApplyRulesRequest{Yaml: string(data), Author: author, FileName: name}
		if cmd.Flags().Changed("expected-version") {
			request.ExpectedVersion = &expected
		}
		if _, warnings, err := rules.Parse(name, data); err == nil {
			g.warn(warnings) // whether they are valid is the coordinator's to say
		}
		ctx, cancel := g.call(cmd)
		defer cancel()
		answer, err := g.ruleService().ApplyRules(ctx, request)
		if err != nil {
			return g.explainApply(err)
		}
		return g.print(answer, func(w io.Writer) { fmt.Fprintf(w, "version %d is in force\n", answer.Version) })
	}
	return cmd
}

// explainApply keeps a list of problems a list.
func (g *globals) explainApply(err error) error {
	if remote, ok := errors.AsType[*connect.Error](err); ok {
		switch remote.Code() {
		case connect.CodeInvalidArgument:
			return fmt.Errorf("the rules were refused, nothing changed:\n%s", remote.Message())
		case connect.CodeFailedPrecondition:
			return fmt.Errorf("nothing changed: %s; see 'aliquot rules show'", remote.Message())
		}
	}
	return g.explain(err, aCoordinator, g.coordinator())
}

func newRulesShow(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "The rules in force (their version goes to standard error)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := g.call(cmd)
			defer cancel()
			answer, err := g.ruleService().GetRules(ctx, &aliquotv1.GetRulesRequest{})
			if err != nil {
				return g.explain(err, aCoordinator, g.coordinator())
			}
			return g.print(answer, func(w io.Writer) {
				fmt.Fprintln(g.Err, ruleOrigin(answer))
				fmt.Fprint(w, answer.Yaml)
			})
		},
	}
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
		text += " at " + time.UnixMilli(r.AppliedUnixMs).UTC().Format(time.RFC3339)
	}
	return text
}
