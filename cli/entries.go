package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// newEntries returns the commands about what stands above the rules file.
func newEntries(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entries",
		Short: "What was set above the rules file, and outlives every change of it: values of tiers",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEntriesList(g), newEntriesRemove(g))
	return cmd
}

func newEntriesList(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "The entries, what they set, and the rules that they hold for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := g.getRules(cmd, 0)
			if err != nil {
				return err
			}
			// The file is another command's.
			return g.print(&aliquotv1.GetRulesResponse{Version: answer.GetVersion(), Tiers: answer.GetTiers()}, func(w io.Writer) { printEntries(w, answer) })
		},
	}
}

func printEntries(w io.Writer, r *aliquotv1.GetRulesResponse) {
	if len(r.GetTiers()) == 0 {
		fmt.Fprintln(w, "no entries; PUT /rules/tier/TIER on a coordinator sets the value of a tier")
		return
	}
	rows := [][]string{{"ENTRY", "VALUE", "RULES", "SINCE", "BY", "COMMENT"}}
	for i, value := range rules.TierValuesOf(r.GetTiers()) {
		e := r.GetTiers()[i]
		holds := strings.Join(e.GetRuleIds(), ",")
		if holds == "" {
			holds = "without effect"
		}
		since := "version " + strconv.FormatUint(e.GetVersion(), 10) + ", " + instant(e.GetUnixMs())
		rows = append(rows, []string{"tier " + e.GetTier(), value.String(), holds, since, e.GetAuthor(), e.GetComment()})
	}
	columns(w, rows)
}

// printTierRules prints what a change of a tier made of its rules.
func printTierRules(w io.Writer, changed []*aliquotv1.TierRule) {
	if len(changed) == 0 {
		return
	}
	rows := [][]string{{"RULE", "BEFORE", "NOW", ""}}
	for _, r := range changed {
		rows = append(rows, []string{r.GetRuleId(), limitText(r.GetBefore()), limitText(r.GetAfter()), r.GetWhyNot()})
	}
	columns(w, rows)
}

func limitText(l *aliquotv1.TierLimit) string {
	if l.GetRefillRate() > 0 {
		return fmt.Sprintf("%d, %s/s", l.GetLimit(), figure(l.GetRefillRate()))
	}
	return fmt.Sprintf("%d in %s", l.GetLimit(), duration(l.GetWindow()))
}

func newEntriesRemove(g *globals) *cobra.Command {
	var by changeFlags
	cmd := &cobra.Command{
		Use:     "remove tier TIER",
		Short:   "Take the value of a tier away: what the file states holds again",
		Example: "  aliquot entries remove tier pro",
		Args:    cobra.ExactArgs(2),
	}
	by.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] != "tier" {
			return usagef("%q is no kind of entry; give tier and its name", args[0])
		}
		return g.editRules(cmd, &aliquotv1.EditRulesRequest{
			Edit:   &aliquotv1.EditRulesRequest_Tier{Tier: &aliquotv1.TierEdit{Tier: args[1], Remove: true}},
			Author: by.author, Comment: by.comment,
		})
	}
	return cmd
}
