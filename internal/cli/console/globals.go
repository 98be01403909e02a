// Package console is what the commands of aliquot share: the flags that every command has, the
// installation that they name, clients of its services, completion, and tables, JSON and YAML as output.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aliquot/internal/config"
)

// Default addresses: the first coordinator and region of `aliquot dev`.
const (
	defaultCoordinator = "127.0.0.1:7400"
	DefaultRegion      = "127.0.0.1:7500"
	DefaultOps         = "127.0.0.1:7503" // of the ops listener
)

// defaultTimeout bounds a call, the forwarding to a leader included.
const defaultTimeout = 5 * time.Second

// outputs are the values of --output.
var outputs = []string{"table", "json", "yaml"}

// ErrDenied ends a command whose answer, already printed, was no.
var ErrDenied = errors.New("denied")

// UsageError is a mistake on the command line.
type UsageError struct{ error }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.error }

// AsUsage marks err as a mistake on the command line.
func AsUsage(err error) error { return UsageError{err} }

// Usagef returns a UsageError with a formatted message.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Globals are the flags that every command has.
type Globals struct {
	Streams
	addr    string
	context string
	Output  string
	Timeout time.Duration
	// at is the installation of the context in use, picked which of several addresses answer.
	at     Installation
	picked map[string]string
}

// AddFlags adds the flags that every command has.
func (g *Globals) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&g.addr, "addr", "", "host:port, URL or unix:///path to ask, or several with commas between them\n(default $"+AddrVar+", else "+defaultCoordinator+", for check and explain "+DefaultRegion+")")
	flags.StringVar(&g.context, "context", "", "the installation to ask, as 'aliquot context' names it")
	flags.StringVarP(&g.Output, "output", "o", "table", "table, json or yaml")
	flags.DurationVar(&g.Timeout, "timeout", defaultTimeout, "longest time of one call")
}

// Validate reports a flag with a value that no command takes, and finds the installation to ask.
func (g *Globals) Validate() error {
	if err := config.CheckEnvironment(os.Environ()); err != nil {
		return AsUsage(err)
	}
	if !slices.Contains(outputs, g.Output) {
		return Usagef("--output %q: give table, json or yaml (import writes a file with --write FILE)", g.Output)
	}
	if g.Timeout <= 0 {
		return Usagef("--timeout %v: give a positive duration, such as 5s", g.Timeout)
	}
	return g.resolve()
}

// Call is a context with the deadline of one call.
func (g *Globals) Call(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(cmd.Context(), g.Timeout)
}

// Attributes reads key=value arguments.
func Attributes(args []string) (map[string]string, error) {
	out := make(map[string]string, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, Usagef("%q: give attributes as key=value, such as api_key=sk_1", arg)
		}
		if _, twice := out[name]; twice {
			return nil, Usagef("attribute %q is given twice", name)
		}
		out[name] = value
	}
	return out, nil
}
