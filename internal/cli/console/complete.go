package console

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// completeWithin bounds what a shell waits for.
const completeWithin = 2 * time.Second

// completing is a list of words that a coordinator knows.
type completing func(ctx context.Context, g *Globals) ([]string, error)

// Nth completes the argument at a place, from 0, and no other one.
func (g *Globals) Nth(place int, words completing) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) != place {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.Complete(cmd, words)
	}
}

// Complete returns the words for a shell; none if no coordinator answers.
func (g *Globals) Complete(cmd *cobra.Command, words completing) ([]string, cobra.ShellCompDirective) {
	if g.resolve() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	out, err := words(ctx, g)
	if err != nil { // nobody to tell it to
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// RuleIDs are the rules in force.
func RuleIDs(ctx context.Context, g *Globals) ([]string, error) {
	answer, err := g.RuleService().GetRules(ctx, &aliquotv1.GetRulesRequest{})
	if err != nil {
		return nil, err
	}
	set, _, err := rules.Parse("rules", []byte(answer.GetYaml()))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range set.Rules() {
		out = append(out, r.ID)
	}
	return out, nil
}

// RegionIDs are the declared regions.
func RegionIDs(ctx context.Context, g *Globals) ([]string, error) {
	answer, err := g.Regions().ListRegions(ctx, &aliquotv1.ListRegionsRequest{})
	var out []string
	for _, r := range answer.GetRegions() {
		out = append(out, r.GetName())
	}
	return out, err
}

// RuleVersions are the latest versions of the file, with their comments.
func RuleVersions(ctx context.Context, g *Globals) ([]string, error) {
	answer, err := g.RuleService().ListRuleVersions(ctx, &aliquotv1.ListRuleVersionsRequest{})
	var out []string
	for _, v := range answer.GetVersions() {
		out = append(out, strconv.FormatUint(v.GetVersion(), 10)+"\t"+v.GetComment())
	}
	return out, err
}

// EntryNames completes the arguments of entries remove: kind, rule, name.
func (g *Globals) EntryNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"block", "allow", "override", "tier"}, cobra.ShellCompDirectiveNoFileComp
	}
	return g.Complete(cmd, func(ctx context.Context, g *Globals) ([]string, error) {
		answer, err := g.RuleService().GetRules(ctx, &aliquotv1.GetRulesRequest{})
		var out []string
		for _, e := range answer.GetEntries() {
			switch {
			case e.GetKind() != args[0]:
			case e.GetRuleId() != "" && len(args) == 1:
				out = append(out, e.GetRuleId())
			case e.GetRuleId() == "" && len(args) == 1, len(args) == 2 && e.GetRuleId() == args[1]:
				out = append(out, e.GetName())
			}
		}
		return out, err
	})
}
