package ruleset

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// entryFlags describe an entry of a list, or an override.
type entryFlags struct {
	ttl    time.Duration
	reason string
}

func (f *entryFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.ttl, "ttl", 0, "how long it holds (default: no end)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; it is shown with the entry")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("ttl") && f.ttl <= 0 {
			return console.Usagef("--ttl %v: give a positive duration, such as 1h, or nothing for good", f.ttl)
		}
		return nil
	}
}

// lasting is nil where nothing was said.
func (f *entryFlags) lasting(cmd *cobra.Command) *durationpb.Duration {
	if !cmd.Flags().Changed("ttl") {
		return nil
	}
	return durationpb.New(f.ttl)
}

// sendRuleEdit makes one small change of the rules.
func sendRuleEdit(g *console.Globals, cmd *cobra.Command, request *aliquotv1.EditRulesRequest) error {
	return applyRuleChange(g, cmd, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		return g.RuleService().EditRules(ctx, request)
	})
}

// NewBlock returns the command block.
func NewBlock(g *console.Globals) *cobra.Command {
	return newListed(g, "block", "Deny every request of some API keys", func(e *aliquotv1.ListEdit) *aliquotv1.EditRulesRequest {
		return &aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Block{Block: e}}
	})
}

// NewAllow returns the command allow.
func NewAllow(g *console.Globals) *cobra.Command {
	return newListed(g, "allow", "Let every request of some API keys pass", func(e *aliquotv1.ListEdit) *aliquotv1.EditRulesRequest {
		return &aliquotv1.EditRulesRequest{Edit: &aliquotv1.EditRulesRequest_Allow{Allow: e}}
	})
}

func newListed(g *console.Globals, verb, short string, request func(*aliquotv1.ListEdit) *aliquotv1.EditRulesRequest) *cobra.Command {
	var by changeFlags
	var of entryFlags
	cmd := &cobra.Command{
		Use:     verb + " PATTERN",
		Short:   short + ", in every region within 2 s",
		Example: "  aliquot " + verb + " 'sk_test_*' --ttl 1h --reason \"load test\"",
		Args:    cobra.ExactArgs(1),
	}
	by.add(cmd)
	of.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := request(&aliquotv1.ListEdit{Pattern: args[0], Ttl: of.lasting(cmd), Reason: of.reason})
		r.Author, r.Comment = by.author, by.comment
		return sendRuleEdit(g, cmd, r)
	}
	return cmd
}

// NewUnlist returns the command unlist, which removes what block and allow added.
func NewUnlist(g *console.Globals) *cobra.Command {
	var by changeFlags
	cmd := &cobra.Command{
		Use:     "unlist PATTERN",
		Example: "  aliquot unlist sk_probe",
		Short:   "Remove the block or the allow of a pattern",
		Args:    cobra.ExactArgs(1),
	}
	by.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return sendRuleEdit(g, cmd, &aliquotv1.EditRulesRequest{
			Edit: &aliquotv1.EditRulesRequest_Unlist{Unlist: args[0]}, Author: by.author, Comment: by.comment,
		})
	}
	return cmd
}

// NewOverride returns the command override.
func NewOverride(g *console.Globals) *cobra.Command {
	var by changeFlags
	var of entryFlags
	var window time.Duration
	o := &aliquotv1.OverrideEdit{}
	cmd := &cobra.Command{
		Use:               "override RULE PATTERN",
		ValidArgsFunction: g.Nth(0, console.RuleIDs),
		Short:             "Give some API keys their own limit under one rule, or remove it",
		Example: "  aliquot override per-key sk_partner --capacity 1000 --refill-rate 200 --ttl 24h --reason \"migration\"\n" +
			"  aliquot override per-key sk_partner --remove",
		Args: cobra.ExactArgs(2),
	}
	by.add(cmd)
	of.add(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&o.Capacity, "capacity", 0, "burst, requests")
	flags.Int64Var(&o.Limit, "limit", 0, "requests in a window")
	flags.Float64Var(&o.RefillRate, "refill-rate", 0, "requests a second")
	flags.DurationVar(&window, "window", 0, "window of the limit")
	flags.BoolVar(&o.Remove, "remove", false, "remove the override")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.RuleId, o.Pattern, o.Reason, o.Ttl = args[0], args[1], of.reason, of.lasting(cmd)
		if window != 0 {
			o.Window = durationpb.New(window)
		}
		return sendRuleEdit(g, cmd, &aliquotv1.EditRulesRequest{
			Edit: &aliquotv1.EditRulesRequest_Override{Override: o}, Author: by.author, Comment: by.comment,
		})
	}
	return cmd
}
