package regional

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	"aliquot/internal/rpc"
	"aliquot/regional/internal/keywatch"
	"aliquot/regional/store"
)

// Config holds all settings of a regional daemon. Start from DefaultConfig.
type Config struct {
	// Region is the name under which this region was declared.
	Region string
	// Listen serves LimiterService over Connect, GRPCListen serves it over gRPC, and OpsListen
	// serves metrics and health. Each is host:port, with port 0 for any free one.
	Listen     string
	GRPCListen string
	OpsListen  string
	// Advertise is the host under which others reach this daemon; empty: the host of Listen.
	Advertise string
	// AllowHosts are further host names, without ports, to which calls over Connect may be
	// addressed; see rpc.Hosts. GET /check accepts any host, because proxies pass the client's own
	// host to it.
	AllowHosts []string
	// Coordinators are RPC addresses, host:port or URLs. One that answers is enough.
	Coordinators []string
	// Redis is MemoryStore, or a URL that begins with redis://, rediss://, redis+sentinel:// or
	// redis+cluster://. It may hold a password and is never logged.
	Redis string
	// RedisPasswordFile holds the password of Redis, so that neither the command line nor the
	// environment shows it; empty: the one in the URL, or none.
	RedisPasswordFile string
	// StateFile keeps rules, configuration and secret over restarts. Empty or NoStateFile means
	// none: a restarted daemon then needs a coordinator before it lets anything pass.
	StateFile string
	// StateFileIsDefault reports that StateFile is a default. If the file cannot be used, the
	// daemon then goes on without it and logs that.
	StateFileIsDefault bool
	// WithoutRules decides requests while it is not known whether there are rules: DenyWithoutRules
	// or PassWithoutRules.
	WithoutRules string
	// Headers selects the rate limit headers of GET /check: both, legacy, ietf or none.
	Headers string
	// RLSHeaders selects the same for answers to Envoy's rate limit protocol.
	RLSHeaders string
	// Identity sets where GET /check finds the client's identity.
	Identity identity.Config
	// ThrottleAfter is the number of denials in a row on one connection after which its answers are
	// delayed; 0: never. Connections from Identity.TrustedProxies are never delayed.
	ThrottleAfter int
	// HotKeyLog is the number of checks a second from which a key is logged; 0: never.
	HotKeyLog int
	// RememberKeys is for how many keys /hotkeys?values=true can show the values, which are kept in
	// memory; 0: none.
	RememberKeys int
	// Insecure permits listeners without TLS that other machines can reach.
	Insecure bool
	// Version is the program's version, for build_info and the coordinators.
	Version string

	// Logger gets the daemon's log.
	Logger *slog.Logger
	// Registry gets and serves the daemon's metrics; nil: a new one.
	Registry *prometheus.Registry
	// Now reads the boot clock; nil: boottime.Now. All leases of the daemon are measured on it.
	Now       func() budget.Instant
	bootClock bool // Now was nil
	// pause delays the answers that ThrottleAfter is about; nil: background.Pause.
	pause func(context.Context, time.Duration) bool
	// streamMemory bounds the memory of all streams together, in bytes; 0: 64 MiB.
	streamMemory int64
	// HTTPClient calls the coordinators; nil: one of the daemon's own.
	HTTPClient *http.Client
}

// The values of WithoutRules.
const (
	DenyWithoutRules = "deny"
	PassWithoutRules = "allow"
)

// maxThrottleAfter is more denials in a row than any connection can have in its life.
const maxThrottleAfter = 1_000_000_000

// DefaultConfig returns a region on loopback with the embedded store. Region and Coordinators have
// no default.
func DefaultConfig() Config {
	return Config{
		Listen:     "127.0.0.1:7500",
		GRPCListen: "127.0.0.1:7501",
		OpsListen:  "127.0.0.1:7503",
		Redis:      MemoryStore,
		Headers:    "both",

		ThrottleAfter: 1000,
		HotKeyLog:     10_000,
		WithoutRules:  DenyWithoutRules,

		RLSHeaders: "none",
		Identity:   identity.DefaultConfig(),
		Version:    "dev",
		Logger:     slog.Default(),
	}
}

// regionName matches the allowed names of a region. The name is a metric label, and a part of file
// names and of URLs.
var regionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// Validate returns everything that is wrong, one line for each error.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !regionName.MatchString(c.Region) {
		fail("--region %q: give the region's declared name: 1 to 63 lower-case letters, digits, '-', '_' or '.'", c.Region)
	}
	c.validateListeners(fail)
	if len(c.Coordinators) == 0 {
		fail("--coordinators is empty: give the RPC address of at least one coordinator, host:port")
	}
	for _, a := range c.Coordinators {
		if err := checkCoordinator(a); err != nil {
			fail("--coordinators %s: %w; give host:port or http://host:port", a, err)
		}
	}
	if _, err := c.storeSetting(); err != nil {
		errs = append(errs, err)
	}
	if _, err := httpanswer.ParseHeaders(c.Headers); err != nil {
		fail("--headers %w", err)
	}
	if _, err := httpanswer.ParseHeaders(c.RLSHeaders); err != nil {
		fail("--rls-headers %w", err)
	}
	if _, err := identity.New(c.Identity); err != nil {
		fail("--api-key-from, --user-header, --attribute-header, --trusted-proxies: %w", err)
	}
	if c.ThrottleAfter < 0 || c.ThrottleAfter > maxThrottleAfter {
		fail("--throttle-after %d: give a number of denials from 1 to %d, or 0 for none", c.ThrottleAfter, maxThrottleAfter)
	}
	if c.RememberKeys < 0 || c.RememberKeys > keywatch.MaxRememberKeys {
		fail("--remember-keys %d: give 0 to %d", c.RememberKeys, keywatch.MaxRememberKeys)
	}
	if c.HotKeyLog < 0 {
		fail("--hot-key-log %d: give a number of checks a second, or 0 for none", c.HotKeyLog)
	}
	if c.WithoutRules != DenyWithoutRules && c.WithoutRules != PassWithoutRules {
		fail("--without-rules %q: give deny, or allow to let every request pass until the rules are known", c.WithoutRules)
	}
	if c.Logger == nil {
		fail("the logger is missing")
	}
	return errors.Join(errs...)
}

func (c *Config) validateListeners(fail func(string, ...any)) {
	seen := map[string]string{}
	for _, l := range c.listeners() {
		path, unix := rpc.UnixPath(l.address)
		if err := checkListener(l, path, unix); err != nil {
			fail("--%s %s: %v", l.flag, l.address, err)
			continue
		}
		if !unix && !c.Insecure && !rpc.IsLoopback(l.address) {
			fail("--%s %s can be reached from other machines and TLS is not available yet in this version; "+
				"listen on 127.0.0.1, or pass --insecure if the network is trusted", l.flag, l.address)
		}
		if other, ok := seen[l.address]; ok && !strings.HasSuffix(l.address, ":0") {
			fail("--%s and --%s are both %s; give each its own port", other, l.flag, l.address)
		}
		seen[l.address] = l.flag
	}
}

func checkListener(l listener, path string, unix bool) error {
	if unix && l.flag != flagOpsListen {
		return rpc.CheckUnix(path)
	}
	if _, _, err := net.SplitHostPort(l.address); err != nil || strings.HasPrefix(l.address, "unix:") {
		return errors.New("give host:port, or for --listen and --grpc-listen unix:///path")
	}
	return nil
}

func checkCoordinator(address string) error {
	if !strings.Contains(address, "://") {
		_, _, err := net.SplitHostPort(address)
		return err
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme != "http" || u.Host == "" {
		return errors.New("not an http:// URL with a host")
	}
	return nil
}

// storeSetting returns the setting of the store, with the password from the file, if one is named. It
// returns an error for a store that this version cannot use. Its errors do not show the URL, which
// may hold a password.
func (c *Config) storeSetting() (string, error) {
	setting, kind := c.Redis, c.storeKind()
	if c.RedisPasswordFile != "" {
		if kind.embedded {
			return "", fmt.Errorf("--redis-password-file: --redis is %s, which has no password; give the URL of a Redis, or leave the file out", setting)
		}
		text, err := os.ReadFile(c.RedisPasswordFile)
		if err != nil {
			return "", fmt.Errorf("--redis-password-file: %w", err)
		}
		password := strings.TrimRight(string(text), "\r\n")
		if password == "" {
			return "", fmt.Errorf("--redis-password-file %s: the file is empty; write the password into it", c.RedisPasswordFile)
		}
		if setting, err = store.WithPassword(setting, password); err != nil {
			return "", fmt.Errorf("--redis-password-file: %w", err)
		}
	}
	if kind.check == nil {
		return setting, nil
	}
	if err := kind.check(setting); err != nil {
		return "", fmt.Errorf("--redis: give memory, or the URL of a Redis: %w", err)
	}
	return setting, nil
}

// hosts returns the host names to which calls over Connect may be addressed.
func (c *Config) hosts() rpc.Hosts {
	return rpc.NewHosts(append(slices.Clone(c.AllowHosts), c.Advertise)...)
}
