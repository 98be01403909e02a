package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// known are the names, in the form of flags, of all variables that a program of Aliquot reads. They share
// one environment in many installations, so a program accepts the names of the others.
var known = []string{
	"addr", "advertise", "allow-host", "api-key-from", "attribute-header", "bootstrap-expect", "cluster-label", "config", "context",
	"coordinators", "data-dir", "gossip-cidr", "gossip-key-file", "gossip-listen", "grpc-listen", "headers", "hot-key-log", "insecure",
	"join", "listen", "log-format", "log-level", "node-id", "ops-listen", "raft-listen", "raft-multiplier", "redis", "redis-password-file",
	"region", "region-addr", "regions", "remember-keys", "rls-headers", "rules", "state-file", "throttle-after", "trusted-proxies",
	"user-header", "without-rules",
}

// Known returns the names, in the form of flags, of all variables that CheckEnvironment knows, sorted.
func Known() []string { return slices.Clone(known) }

// foreign are names that orchestrators set for a service that is called aliquot: ALIQUOT_SERVICE_HOST,
// ALIQUOT_REGIONAL_PORT_7500_TCP_ADDR.
var foreign = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT)|PORT)(_|$)`)

// CheckEnvironment returns an error for a variable in environ whose name begins with EnvPrefix and is almost
// that of one which a program reads. Other unknown names are no errors, because orchestrators and people set
// some of their own.
func CheckEnvironment(environ []string) error {
	for _, e := range environ {
		variable, _, _ := strings.Cut(e, "=")
		name, ours := strings.CutPrefix(variable, EnvPrefix)
		if !ours || foreign.MatchString(name) || len(name) > maxNameShown {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if slices.Contains(known, flag) && variable == Variable(flag) {
			continue
		}
		if meant := misspelt(flag); meant != "" {
			return fmt.Errorf("environment %s: no program reads it; did you mean %s? Unset it if not", variable, Variable(meant))
		}
	}
	return nil
}

// misspelt returns the known name that differs from another one in so few letters that it must have been
// meant: one letter in four, at most two. It is empty if there is none.
func misspelt(name string) string {
	meant := nearest(name, known)
	if meant == "" || distance(name, meant) > min(2, max(1, len(name)/4)) {
		return ""
	}
	return meant
}
