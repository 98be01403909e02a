// Package cli is the aliquot command: a client for people of everything that the
// daemons serve, the all-in-one `aliquot dev`, and the benchmarks.
package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/benchmark"
	"aliquot/internal/cli/console"
	"aliquot/internal/cli/ruleset"
	"aliquot/internal/config"
	"aliquot/rules/source"
)

// Exit codes.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitDenied = 3
)

// Streams are what a command reads and writes.
type Streams = console.Streams

// Run executes the command line (without the program's name) and returns the exit
// code: 0 ok, 1 error, 2 usage, 3 denied. Errors are printed to Err, in the form that
// --output says. A command that serves ends when ctx does, with 0.
func Run(ctx context.Context, args []string, s Streams) int {
	g := &console.Globals{Streams: s}
	root := rootCommand(g)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, console.ErrDenied):
		return exitDenied
	}
	g.PrintError(err, args, cmd.CommandPath()+" --help")
	if _, usage := errors.AsType[console.UsageError](err); usage {
		return exitUsage
	}
	return exitError
}

// Command returns the command aliquot with all its subcommands. Run executes it.
func Command(s Streams) *cobra.Command { return rootCommand(&console.Globals{Streams: s}) }

func rootCommand(g *console.Globals) *cobra.Command {
	s := g.Streams
	root := &cobra.Command{
		Use:           "aliquot",
		Short:         "Keep one rate limit over many regions",
		Long:          "Aliquot keeps one rate limit over many regions.\n\nExit codes: 0 ok, 1 error, 2 usage, 3 denied.",
		Version:       config.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetVersionTemplate("aliquot {{.Version}}\n")
	g.AddFlags(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return g.Validate() }
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return console.AsUsage(console.FlagError(c, err)) })
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"requests", "Requests, asked of a region:", []*cobra.Command{newCheck(g), newExplain(g), newReserve(g), newSettle(g), newHotKeys(g)}},
		{"rules", "Rules, and what takes precedence over them:", []*cobra.Command{
			ruleset.NewRules(g), ruleset.NewBlock(g), ruleset.NewAllow(g), ruleset.NewUnlist(g), ruleset.NewOverride(g), ruleset.NewEntries(g), ruleset.NewImport(g),
		}},
		{"cluster", "The cluster:", []*cobra.Command{newTop(g), newBudget(g), newCluster(g), newRegion(g), ruleset.NewSnapshot(g), newDoctor(g)}},
		{"try", "To try it out, and to size it:", []*cobra.Command{newDev(g), benchmark.New(g), newCapacity(g)}},
		{"self", "This command:", []*cobra.Command{newContext(g), newVersion(g)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("self")
	root.SetCompletionCommandGroupID("self")
	refuseUnknown(root)
	return root
}

// refuseUnknown makes wrong arguments usage errors, and unknown subcommands too, for
// which cobra would print help and succeed.
func refuseUnknown(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return console.Usagef("%s: %w", c.UseLine(), err)
			}
			return nil
		}
	}
	if !cmd.Runnable() && cmd.HasSubCommands() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(c *cobra.Command, args []string) error { return missingCommand(c, args) }
	}
	for _, sub := range cmd.Commands() {
		refuseUnknown(sub)
	}
}

func missingCommand(c *cobra.Command, args []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	choice := strings.Join(names, ", ")
	if len(args) == 0 {
		return console.Usagef("which command of '%s'? one of %s", c.CommandPath(), choice)
	}
	if meant := source.Nearest(args[0], names); meant != "" {
		return console.Usagef("there is no command '%s %s'; did you mean '%s %s'?", c.CommandPath(), args[0], c.CommandPath(), meant)
	}
	return console.Usagef("there is no command '%s %s'; one of %s", c.CommandPath(), args[0], choice)
}
