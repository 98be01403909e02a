package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// known are the names, in the form of flags, of variables that a program of Aliquot reads. All programs share
// one environment in many installations, so a program accepts the names of the others. It knows its own flags
// without this list: a new flag needs a name here only if another program takes it for a misspelt one of its
// own, which a test of tools/reference finds.
var known = []string{
	"addr", "advertise", "allow-host", "api-key-from", "attribute-header", "bootstrap-expect", "cluster-label", "config", "context",
	"coordinators", "data-dir", "gossip-cidr", "gossip-key-file", "gossip-listen", "grpc-listen", "headers", "hot-key-log", "insecure",
	"join", "listen", "log-format", "log-level", "node-id", "ops-listen", "raft-listen", "raft-multiplier", "redis", "redis-password-file",
	"region", "region-addr", "regions", "remember-keys", "rls-headers", "rules", "state-file", "throttle-after", "trusted-proxies",
	"user-header", "without-rules",
}

// Known returns the names, in the form of flags, of the variables that CheckEnvironment knows in every program,
// sorted.
func Known() []string { return slices.Clone(known) }

// foreign are names that orchestrators set for a service that is called aliquot: ALIQUOT_SERVICE_HOST,
// ALIQUOT_REGIONAL_PORT_7500_TCP_ADDR.
var foreign = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT)|PORT)(_|$)`)

// CheckEnvironment returns an error for a variable in environ whose name begins with EnvPrefix and is almost
// that of one which a program reads. flags are those of the program that asks, and those in Known are of the
// others. Other unknown names are no errors, because orchestrators and people set some of their own.
func CheckEnvironment(environ []string, flags ...string) error {
	names := slices.Concat(known, flags)
	for _, e := range environ {
		variable, _, _ := strings.Cut(e, "=")
		name, ours := strings.CutPrefix(variable, EnvPrefix)
		if !ours || foreign.MatchString(name) || len(name) > maxNameShown {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if slices.Contains(names, flag) && variable == Variable(flag) {
			continue
		}
		if meant := misspelt(flag, names); meant != "" {
			return fmt.Errorf("environment %s: no program reads it; did you mean %s? Unset it if not", variable, Variable(meant))
		}
	}
	return nil
}

// kindsOfValue are words that people put behind the name of a setting: ALIQUOT_REDIS_URL.
var kindsOfValue = []string{"addr", "address", "addresses", "file", "host", "id", "list", "name", "path", "uri", "url"}

// misspelt returns the one of names that must have been meant by another name. It differs in few letters, one in
// four and at most three, or the other name has a word more for the kind of the value. It is empty if there is
// none.
func misspelt(name string, names []string) string {
	if meant := nearest(name, names); meant != "" && distance(name, meant) <= min(3, max(1, len(name)/4)) {
		return meant
	}
	at := strings.LastIndexByte(name, '-')
	if at > 0 && slices.Contains(kindsOfValue, name[at+1:]) && slices.Contains(names, name[:at]) {
		return name[:at]
	}
	return ""
}
