// Command coordinator is one of the few daemons that together keep the budgets:
// it replicates rules and shares by Raft and, as the leader, moves the shares to
// where the demand is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"aliquot/coordinator"
	"aliquot/internal/config"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

const intro = `Aliquot coordinator: keeps the budgets that regions spend from.

Usage: coordinator --node-id ID --data-dir DIR [flags]

Every flag can also be set in the file named by --config (YAML, the flag's name as
the key) and in the environment (ALIQUOT_NODE_ID sets --node-id). Flags win over
the environment, the environment over the file.

One coordinator alone, for a try:
  coordinator --node-id c1 --data-dir ./c1 --bootstrap-expect 1 --regions us,eu

Flags:
`

// gcPercent: a leader's heap is mostly numbers, 300 MiB with 100,000 hot keys of ten
// regions, and quickly looked through; so it may grow by half of what lives, not by as
// much again. GOGC says otherwise.
const gcPercent = 50

func main() {
	syscall.Umask(0o077) // state and secrets are the daemon's own; a unix socket has its mode all the same
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(args, environ []string, stdout, stderr io.Writer) int {
	cfg, process := coordinator.DefaultConfig(), config.Process{}
	fs := flags(&cfg, &process, stdout)
	err := parse(fs, args, environ)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%v\ncoordinator --help lists all flags\n", err)
		return exitUsage
	}
	if process.Help {
		fs.Usage()
		return exitOK
	}
	if process.Version {
		fmt.Fprintln(stdout, "aliquot coordinator", config.Version())
		return exitOK
	}
	log, err := config.NewLogger(stderr, process.LogLevel, process.LogFormat)
	cfg.Logger = log
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		fmt.Fprintln(stderr, config.Locate(fs, err))
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go func() {
		for range hangup {
			log.Info("SIGHUP: there is nothing to reload; rules change with ApplyRules, settings with a restart")
		}
	}()
	log.Info("aliquot coordinator", "version", config.Version(), "node", cfg.NodeID)
	if err := coordinator.Run(ctx, cfg); err != nil {
		log.Error("coordinator failed", "error", err)
		return exitError
	}
	return exitOK
}

// parse reads the command line, then what it left open from the environment and
// the file.
func parse(fs *pflag.FlagSet, args, environ []string) error {
	if err := config.Parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; every setting is a --flag", fs.Arg(0))
	}
	return config.Load(fs, config.File(fs, environ), environ)
}

func flags(c *coordinator.Config, p *config.Process, help io.Writer) *pflag.FlagSet {
	fs := pflag.NewFlagSet("coordinator", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() { fmt.Fprint(help, intro, strings.TrimRight(fs.FlagUsages(), "\n"), "\n") }
	c.Bind(fs)
	p.Bind(fs)
	return fs
}
