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
	paceCollector()
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// settings are the flags that are not the daemon's own configuration.
type settings struct {
	help, version       bool
	join                []string
	logLevel, logFormat string
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
	var s settings
	fs := flags(&c, &s)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp), err == nil && s.help:
		fmt.Fprint(stdout, usage, fs.FlagUsages())
		return nil, 0
	case err == nil && s.version:
		fmt.Fprintln(stdout, "aliquot regional", c.Version)
		return nil, 0
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil {
		err = config.Load(fs, config.File(fs, environ), environ)
	}
	if err == nil {
		c.Coordinators = append(c.Coordinators, s.join...)
		c.Logger, err = config.NewLogger(stderr, s.logLevel, s.logFormat)
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\nregional --help lists the flags\n", err)
		return nil, exitUsage
	}
	if !fs.Changed(stateFileFlag) {
		useDefaultStateFile(&c, environ)
	}
	return &c, 0
}

// stateFileFlag names the flag whose default depends on other flags.
const stateFileFlag = "state-file"

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

// flags binds the command line to the configuration; the defaults are c's.
func flags(c *regional.Config, s *settings) *pflag.FlagSet {
	fs := pflag.NewFlagSet("regional", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {} // run prints it
	fs.StringVar(&c.Region, "region", "", "name of this region, as declared at the coordinators (required)")
	fs.StringSliceVar(&c.Coordinators, "coordinators", nil, "RPC addresses of coordinators, host:port,...; any of them will do")
	fs.StringSliceVar(&s.join, "join", nil, "more RPC addresses of coordinators; the same as --coordinators in this version")
	fs.StringVar(&c.Redis, "redis", c.Redis, "the region's store: memory, redis://HOST:PORT, rediss://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT; memory is this process's own, so a second daemon of the region needs Redis: with memory each would admit what the region may")
	fs.StringVar(&c.StateFile, stateFileFlag, "", "file that keeps rules and configuration, so that a restart needs no coordinator; none: no file "+
		"(default regional-REGION-PORT.json, with the port of --listen, in $STATE_DIRECTORY, $XDG_STATE_HOME/aliquot or ~/.local/state/aliquot)")
	fs.StringVar(&c.WithoutRules, "without-rules", c.WithoutRules, "what becomes of requests until the state file or a coordinator has told the rules: deny (mode no_rules_yet, HTTP 503), or allow, which lets every request pass meanwhile")
	fs.StringVar(&c.Listen, "listen", c.Listen, "address for Connect RPC, JSON over HTTP, and GET /check: host:port, or unix:///path")
	fs.StringVar(&c.GRPCListen, "grpc-listen", c.GRPCListen, "address for gRPC: host:port, or unix:///path")
	fs.StringVar(&c.OpsListen, "ops-listen", c.OpsListen, "address for /metrics, /healthz and /readyz")
	fs.String("gossip-listen", "127.0.0.1:7502", "reserved for gossip; not opened in this version")
	fs.String("cluster-label", "", "reserved for gossip; not used in this version")
	fs.StringVar(&c.Headers, "headers", c.Headers, "rate limit headers of GET /check: both, legacy (X-RateLimit-*), ietf (RateLimit, RateLimit-Policy) or none")
	fs.StringVar(&c.RLSHeaders, "rls-headers", c.RLSHeaders, "the same of answers to Envoy's rate limit protocol: both, legacy, ietf or none; Envoy can write headers of its own")
	fs.StringSliceVar(&c.Identity.APIKeyFrom, "api-key-from", c.Identity.APIKeyFrom, "where GET /check finds the API key, the first that has one: header (X-API-Key), header:NAME, bearer, query:NAME, jwt:CLAIM (of the bearer token, which is NOT verified)")
	fs.StringVar(&c.Identity.UserHeader, "user-header", c.Identity.UserHeader, "header that tells GET /check the user's id, believed from --trusted-proxies; empty: none")
	fs.StringSliceVar(&c.Identity.AttributeHeaders, "attribute-header", c.Identity.AttributeHeaders, "header that tells GET /check an attribute or a cost, believed from --trusted-proxies: X-Tier=tier, X-Tokens=costs.tokens, or a claim of the bearer token (NOT verified): jwt:plan=tier; repeatable")
	fs.StringSliceVar(&c.Identity.TrustedProxies, "trusted-proxies", c.Identity.TrustedProxies, "networks whose X-Forwarded-For, user and attribute headers GET /check believes, CIDR,...")
	fs.IntVar(&c.ThrottleAfter, "throttle-after", c.ThrottleAfter, "denials in a row on one connection after which each further answer on it is delayed (1 ms, doubling up to 100 ms) until one request is admitted; 0: never. Connections from --trusted-proxies are left alone")
	fs.IntVar(&c.HotKeyLog, "hot-key-log", c.HotKeyLog, "checks a second from which on a key gets a line in the log; 0: none")
	fs.StringSliceVar(&c.AllowHosts, "allow-host", nil, "name, without a port, by which calls over Connect may ask this daemon, a,b,c; addresses, --advertise, the machine's name and names that are not public are allowed, and GET /check by any name")
	fs.IntVar(&c.RememberKeys, "remember-keys", 0, "of how many keys the values stay in memory, so that 'aliquot hotkeys --values' tells whose they are to whoever reaches --ops-listen; 0: none")
	fs.StringVar(&c.Advertise, "advertise", "", "host under which others reach this daemon (default: that of --listen)")
	fs.BoolVar(&c.Insecure, "insecure", false, "permit listeners that other machines can reach without TLS")
	fs.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&s.logFormat, "log-format", "text", "text or json")
	fs.String("config", "", "YAML file with these settings")
	fs.BoolVarP(&s.help, "help", "h", false, "print this help")
	fs.BoolVar(&s.version, "version", false, "print the version")
	return fs
}

// serve runs the daemon until SIGTERM or SIGINT; a second one ends it at once.
// SIGHUP has nothing to reload yet and must not kill.
func serve(c regional.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
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
