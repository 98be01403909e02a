// Package cli is the aliquot command: a client for people of everything that the
// daemons serve, the all-in-one `aliquot dev`, and the benchmarks.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/config"
	"aliquot/rules"
)

// Exit codes.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitDenied = 3
)

// Default addresses: the first coordinator and region of `aliquot dev`.
const (
	defaultCoordinator = "127.0.0.1:7400"
	defaultRegion      = "127.0.0.1:7500"
)

// defaultTimeout bounds a call, the forwarding to a leader included.
const defaultTimeout = 5 * time.Second

// errDenied ends a command whose answer, already printed, was no.
var errDenied = errors.New("denied")

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// globals are the flags that every command has.
type globals struct {
	Streams
	addr    string
	context string
	output  string
	timeout time.Duration
	// at is the installation of the context in use, picked which of several addresses answer.
	at     installation
	picked map[string]string
}

// Run executes the command line (without the program's name) and returns the exit
// code: 0 ok, 1 error, 2 usage, 3 denied. Errors are printed to Err. A command
// that serves ends when ctx does, with 0.
func Run(ctx context.Context, args []string, s Streams) int {
	root := Command(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch usage := (usageError{}); {
	case err == nil:
		return exitOK
	case errors.Is(err, errDenied):
		return exitDenied
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "aliquot: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	default:
		fmt.Fprintf(s.Err, "aliquot: %v\n", err)
		return exitError
	}
}

// Command returns the command aliquot with all its subcommands. Run executes it.
func Command(s Streams) *cobra.Command {
	g := &globals{Streams: s}
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
	flags := root.PersistentFlags()
	flags.StringVar(&g.addr, "addr", "", "host:port, URL or unix:///path to ask, or several with commas between them\n(default $"+addrVar+", else "+defaultCoordinator+", for check and explain "+defaultRegion+")")
	flags.StringVar(&g.context, "context", "", "the installation to ask, as 'aliquot context' names it")
	flags.StringVarP(&g.output, "output", "o", "table", "table, json or yaml")
	flags.DurationVar(&g.timeout, "timeout", defaultTimeout, "longest time of one call")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return g.validate() }
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{flagError(c, err)} })
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"requests", "Requests, asked of a region:", []*cobra.Command{newCheck(g), newExplain(g), newReserve(g), newSettle(g), newHotKeys(g)}},
		{"rules", "Rules, and what takes precedence over them:", []*cobra.Command{
			newRules(g), newBlock(g), newAllow(g), newUnlist(g), newOverride(g), newEntries(g), newImport(g),
		}},
		{"cluster", "The cluster:", []*cobra.Command{newBudget(g), newCluster(g), newRegion(g)}},
		{"try", "To try it out, and to size it:", []*cobra.Command{newDev(g), newBench(g), newCapacity(g)}},
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

// refuseUnknown makes wrong arguments usage errors, and an unknown subcommand one
// too, rather than a reason to print help and succeed.
func refuseUnknown(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usagef("%s: %w", c.UseLine(), err)
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
		return usagef("which command of '%s'? one of %s", c.CommandPath(), choice)
	}
	if meant := rules.Nearest(args[0], names); meant != "" {
		return usagef("there is no command '%s %s'; did you mean '%s %s'?", c.CommandPath(), args[0], c.CommandPath(), meant)
	}
	return usagef("there is no command '%s %s'; one of %s", c.CommandPath(), args[0], choice)
}

func (g *globals) validate() error {
	if !slices.Contains([]string{"table", "json", "yaml"}, g.output) {
		return usagef("--output %q: give table, json or yaml (import writes a file with --write FILE)", g.output)
	}
	if g.timeout <= 0 {
		return usagef("--timeout %v: give a positive duration, such as 5s", g.timeout)
	}
	return g.resolve()
}

// call is a context with the deadline of one call.
func (g *globals) call(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(cmd.Context(), g.timeout)
}

// attributes reads key=value arguments.
func attributes(args []string) (map[string]string, error) {
	out := make(map[string]string, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, usagef("%q: give attributes as key=value, such as api_key=sk_1", arg)
		}
		if _, twice := out[name]; twice {
			return nil, usagef("attribute %q is given twice", name)
		}
		out[name] = value
	}
	return out, nil
}
