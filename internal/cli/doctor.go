package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/cli/doctor"
)

func newDoctor(g *console.Globals) *cobra.Command {
	var ops []string
	cmd := &cobra.Command{
		Use:     "doctor",
		Example: "  aliquot doctor\n  aliquot doctor --addr c1:7400,c2:7400 --ops us-east:7503 -o json",
		Short:   "Say what is wrong with the installation and what to do; exits with 1 if a problem is found",
		Long: "Asks every coordinator, and every regional daemon that the leader names, and says in plain words what is wrong and\n" +
			"what to do: coordinators that do not answer, no leader, silent regions, stores that are down, evict keys or write to\n" +
			"disks, regions that share a store, missing or old rules, several versions, clocks that differ. It changes nothing.\n" +
			"Exits with 1 if there is a problem; warnings, and notes of what is over, are 0.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringSliceVar(&ops, "ops", nil, "ops `addresses` of further regional daemons to ask, host:port,...")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		view := doctor.Look(cmd.Context(), g.Coordinators(), ops, g.Timeout)
		findings := doctor.Examine(view)
		problems := 0
		for _, f := range findings {
			if f.Severity == doctor.Problem {
				problems++
			}
		}
		shown := map[string]any{"healthy": problems == 0, "findings": findings, "coordinators": coordinatorsShown(view), "daemons": daemonsShown(view)}
		if findings == nil {
			shown["findings"] = []doctor.Finding{}
		}
		if err := g.PrintValue(shown, func(w io.Writer) { printFindings(w, view, findings) }); err != nil {
			return err
		}
		if problems > 0 {
			return fmt.Errorf("%d %s found", problems, plural(problems, "problem"))
		}
		return nil
	}
	return cmd
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func printFindings(w io.Writer, view doctor.View, findings []doctor.Finding) {
	answering, leader := 0, "none leads"
	for _, c := range view.Coordinators {
		if c.Status == nil {
			continue
		}
		answering++
		if c.Status.GetState() == "leader" {
			leader = c.NodeID + " leads"
		}
	}
	asked := 0
	for _, d := range view.Daemons {
		if d.Err == nil {
			asked++
		}
	}
	fmt.Fprintf(w, "%d of %d coordinators answer, %s; %d of %d regional daemons answer\n", answering, len(view.Coordinators), leader, asked, len(view.Daemons))
	if !slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Severity != doctor.Note }) {
		fmt.Fprintln(w, "nothing is wrong")
	}
	for _, f := range findings {
		fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n", strings.ToUpper(f.Severity), f.About, f.What, f.Remedy)
	}
}

func coordinatorsShown(view doctor.View) []map[string]any {
	out := []map[string]any{}
	for _, c := range view.Coordinators {
		one := map[string]any{"nodeId": c.NodeID, "address": c.Address, "answers": c.Status != nil}
		if c.Status != nil {
			one["state"], one["leaderId"], one["version"] = c.Status.GetState(), c.Status.GetLeaderId(), c.Status.GetVersion()
			one["rulesVersion"] = c.Status.GetRulesVersion()
		}
		out = append(out, one)
	}
	return out
}

func daemonsShown(view doctor.View) []map[string]any {
	out := []map[string]any{}
	for _, d := range view.Daemons {
		one := map[string]any{"region": d.Region, "ops": d.Ops, "answers": d.Err == nil}
		if d.Err == nil {
			one["ready"], one["phase"], one["session"], one["store"] = d.Ready.Ready, d.Ready.Phase, d.Ready.Session, d.Store
		}
		out = append(out, one)
	}
	return out
}
