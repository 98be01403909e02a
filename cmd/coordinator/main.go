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

// options are the flags that are not in coordinator.Config.
type options struct {
	version   bool
	logLevel  string
	logFormat string
}

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
	cfg, opts := coordinator.DefaultConfig(), options{}
	fs := flags(&cfg, &opts, stdout)
	switch err := parse(fs, args, environ); {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%v\ncoordinator --help lists all flags\n", err)
		return exitUsage
	}
	if opts.version {
		fmt.Fprintln(stdout, "aliquot coordinator", config.Version())
		return exitOK
	}
	log, err := config.NewLogger(stderr, opts.logLevel, opts.logFormat)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	cfg.Logger = log
	if err := cfg.Validate(); err != nil {
		fmt.Fprintln(stderr, err)
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
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; every setting is a --flag", fs.Arg(0))
	}
	return config.Load(fs, config.File(fs, environ), environ)
}

func flags(c *coordinator.Config, o *options, help io.Writer) *pflag.FlagSet {
	fs := pflag.NewFlagSet("coordinator", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() { fmt.Fprint(help, intro, strings.TrimRight(fs.FlagUsages(), "\n"), "\n") }

	fs.String("config", "", "YAML file with settings")
	fs.StringVar(&c.NodeID, "node-id", c.NodeID, "name of this coordinator, for the life of its data directory")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "directory for the replicated log, this node's alone")
	fs.StringVar(&c.Listen, "listen", c.Listen, "address for Connect RPC, gRPC and REST")
	fs.StringVar(&c.RaftListen, "raft-listen", c.RaftListen, "address for Raft between coordinators")
	fs.StringVar(&c.GossipListen, "gossip-listen", c.GossipListen, "address for gossip between coordinators (TCP and UDP)")
	fs.StringVar(&c.OpsListen, "ops-listen", c.OpsListen, "address for /metrics, /healthz and /readyz")
	fs.StringVar(&c.Advertise, "advertise", c.Advertise, "host that others reach this coordinator by (default the listen addresses')")
	fs.StringSliceVar(&c.AllowHosts, "allow-host", c.AllowHosts, "name, without a port, by which this coordinator may be asked, a,b,c; addresses, --advertise, the machine's name and names that are not public are allowed")
	fs.StringSliceVar(&c.Join, "join", c.Join, "gossip addresses of other coordinators, host:port,...")
	fs.IntVar(&c.BootstrapExpect, "bootstrap-expect", c.BootstrapExpect, "coordinators that form a new cluster together; 0 joins only")
	fs.StringSliceVar(&c.Regions, "regions", c.Regions, "regions of a new cluster, a,b,c (first boot only)")
	fs.StringVar(&c.RulesFile, "rules", c.RulesFile, "rules file of a new cluster (first boot only)")
	fs.StringVar(&c.ClusterLabel, "cluster-label", c.ClusterLabel, "keeps this cluster's gossip apart from others'")
	fs.StringVar(&c.GossipKeyFile, "gossip-key-file", c.GossipKeyFile, "file with the AES key of the gossip, 16, 24 or 32 bytes, raw or base64")
	fs.StringSliceVar(&c.GossipCIDRs, "gossip-allow", c.GossipCIDRs, "networks that gossip is taken from, CIDR,... (default any)")
	fs.BoolVar(&c.Insecure, "insecure", c.Insecure, "allow listening beyond this machine without TLS")
	fs.IntVar(&c.RaftMultiplier, "raft-multiplier", c.RaftMultiplier, "stretches Raft's timeouts of about a second, 1 to 10")
	fs.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&o.logFormat, "log-format", "text", "text or json")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	return fs
}
