// Command regional is the regional daemon: it answers rate limit checks from its
// own region, inside the budgets that the coordinators move.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"aliquot/internal/config"
	"aliquot/regional"
)

const usage = `regional answers rate limit checks from its own region.

Usage: regional --region NAME --coordinators HOST:PORT,... [flags]

Every flag can also be set by the environment (--state-file by ALIQUOT_STATE_FILE)
and in the YAML file of --config; flags win over the environment, the environment
over the file.

`

// exit codes
const (
	exitError = 1
	exitUsage = 2
)

func main() {
	syscall.Umask(0o077) // state and secrets are the daemon's own; a unix socket has its mode all the same
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(args, environ []string, stdout, stderr io.Writer) int {
	c, code := configured(args, environ, stdout, stderr)
	if c == nil {
		return code
	}
	if err := serve(*c); err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return 0
}

// configured reads the settings of a daemon. Nil if none is to run: the exit code is set then, and
// everything is printed.
func configured(args, environ []string, stdout, stderr io.Writer) (set *regional.Config, code int) {
	c := regional.DefaultConfig()
	c.Version = config.Version()
	var p config.Process
	fs := flags(&c, &p)
	err := config.Parse(fs, args)
	switch {
	case errors.Is(err, pflag.ErrHelp), err == nil && p.Help:
		fmt.Fprint(stdout, usage, fs.FlagUsages())
		return nil, 0
	case err == nil && p.Version:
		fmt.Fprintln(stdout, "aliquot regional", c.Version)
		return nil, 0
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil {
		err = config.Load(fs, config.File(fs, environ), environ)
	}
	if err == nil {
		if c.Logger, err = config.NewLogger(stderr, p.LogLevel, p.LogFormat); err == nil {
			err = c.Validate()
		}
		err = config.Locate(fs, err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\nregional --help lists the flags\n", err)
		return nil, exitUsage
	}
	if !fs.Changed(regional.StateFileFlag) {
		useDefaultStateFile(&c, environ)
	}
	return &c, 0
}

// useDefaultStateFile sets the state file of a daemon that was told none.
func useDefaultStateFile(c *regional.Config, environ []string) {
	file, err := regional.DefaultStateFile(c.Region, c.Listen, func(name string) string { return config.Getenv(environ, name) })
	if err != nil {
		c.Logger.Warn("there is no default state file: after a restart nothing passes until a coordinator has told the rules; "+
			"name a file with --state-file, or none", "error", err)
		return
	}
	c.StateFile, c.StateFileIsDefault = file, true
}

// flags binds the command line to the settings; the defaults are c's.
func flags(c *regional.Config, p *config.Process) *pflag.FlagSet {
	fs := pflag.NewFlagSet("regional", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {} // run prints it
	c.Bind(fs)
	p.Bind(fs)
	return fs
}

// serve runs the daemon until SIGTERM or SIGINT; a second one ends it at once.
// SIGHUP has nothing to reload yet and must not kill.
func serve(c regional.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
	go newBallast().keep(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				c.Logger.Info("SIGHUP: nothing to reload in this version; rules come from the coordinators")
			}
		}
	}()
	return regional.Run(ctx, c)
}
