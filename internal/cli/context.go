package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
)

// newContext returns the commands about named installations.
func newContext(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name installations and select one",
		Long: "Names installations and selects one. --addr and --context take precedence over the environment\n" +
			"(" + console.AddrVar + ", " + console.RegionVar + " for check, explain, reserve and settle, " + console.ContextVar + "), and the environment over the context in use.\n" +
			"Separate several addresses by commas: the first one that accepts a connection is asked.",
	}
	cmd.AddCommand(newContextList(g), newContextSet(g), newContextUse(g), newContextRemove(g))
	return cmd
}

func newContextList(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Example: "  aliquot context list",
		Short:   "List the contexts, with the one in use", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := console.ReadContexts()
			if err != nil {
				return err
			}
			return g.PrintValue(all, func(w io.Writer) {
				rows := [][]string{{"CONTEXT", "IN USE", "COORDINATORS", "REGIONS", "OPS"}}
				for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
					c := all.Contexts[name]
					rows = append(rows, []string{name, yes(name == all.Current), console.OrDash(c.Coordinators), console.OrDash(c.Regions), console.OrDash(c.Ops)})
				}
				console.Columns(w, rows)
			})
		},
	}
}

func newContextSet(g *console.Globals) *cobra.Command {
	var c console.Installation
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Name an installation; the first one is used at once", Args: cobra.ExactArgs(1),
		Example: "  aliquot context set prod --coordinators c1:7400,c2:7400,c3:7400 --regions us-east:7500",
	}
	cmd.Flags().StringVar(&c.Coordinators, "coordinators", "", "addresses of coordinators, with commas between them")
	cmd.Flags().StringVar(&c.Regions, "regions", "", "addresses of regional daemons")
	cmd.Flags().StringVar(&c.Ops, "ops", "", "addresses of a regional daemon's ops listener, for hotkeys")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if c == (console.Installation{}) {
			return console.Usagef("say --coordinators, --regions or --ops")
		}
		if args[0] == "" || strings.ContainsFunc(args[0], func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return console.Usagef("context %q: give a name without spaces", args[0])
		}
		if err := c.Check(); err != nil {
			return err
		}
		return changeContexts(g, func(all *console.Contexts) error {
			all.Contexts[args[0]] = c
			if len(all.Contexts) == 1 {
				all.Current = args[0]
			}
			return nil
		})
	}
	return cmd
}

func newContextUse(g *console.Globals) *cobra.Command {
	return newContextChange(g, "use", "Use this installation from now on", func(all *console.Contexts, name string) {
		all.Current = name
	})
}

func newContextRemove(g *console.Globals) *cobra.Command {
	return newContextChange(g, "remove", "Forget an installation", func(all *console.Contexts, name string) {
		delete(all.Contexts, name)
		if all.Current == name {
			all.Current = ""
		}
	})
}

// newContextChange returns a command that changes the file of contexts for one known context.
func newContextChange(g *console.Globals, verb, short string, change func(all *console.Contexts, name string)) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " NAME",
		Example: "  aliquot context " + verb + " prod",
		Short:   short, Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(g, func(all *console.Contexts) error {
				err := checkKnown(all, args[0])
				change(all, args[0])
				return err
			})
		},
	}
}

// checkKnown returns an error if there is no context of that name.
func checkKnown(c *console.Contexts, name string) error {
	if _, known := c.Contexts[name]; !known {
		return fmt.Errorf("there is no context %q; 'aliquot context list' shows those there are", name)
	}
	return nil
}

func changeContexts(g *console.Globals, change func(*console.Contexts) error) error {
	all, err := console.ReadContexts()
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.Write()
}

func completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := console.ReadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
