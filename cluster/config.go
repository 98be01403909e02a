package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
	"aliquot/rules"
)

const (
	// minLease keeps renewals, one a second, well inside a lease's length even in tests.
	minLease = 100 * time.Millisecond
	// maxLease bounds how long a cut-off region's share can stay away from the others.
	maxLease = 10 * time.Minute
	// maxRhoPPM: a clock that is off by a fifth is broken, not drifting.
	maxRhoPPM = 200_000
	// maxRaftMultiplier is Consul's: ten-second elections suit no network we know.
	maxRaftMultiplier = 10
	// maxKeyFileBytes bounds what is read of a key file; 44 is the longest base64.
	maxKeyFileBytes = 256
	// maxLabelBytes keeps the label's share of a gossip packet small.
	maxLabelBytes = 64
)

// JoinFunc asks the coordinator at rpcAddress to make the given server a member; a coordinator that does not lead
// forwards the request to the leader. It returns nil once that is done.
type JoinFunc func(ctx context.Context, rpcAddress, nodeID, instanceID, raftAddress string) error

// Config has the settings of a node and the contents of a new cluster. Regions, RulesYAML, Lease and RhoPPM matter
// only at the first boot of a cluster; later the state on disk is in force.
type Config struct {
	// NodeID is the permanent name of the node: 1 to 64 of A-Z a-z 0-9 . _ -
	NodeID string
	// DataDir is created if it is missing. No other node may use it.
	DataDir string
	// RaftListen and GossipListen are host:port; port 0 picks one.
	RaftListen   string
	GossipListen string
	// AdvertiseHost is the host at which others reach this node; empty: the listen host.
	AdvertiseHost string
	// RPCAddress is the host:port advertised for RPC; may be empty.
	RPCAddress string
	// Join are gossip addresses of other nodes, host:port. It may include this node's own.
	Join []string
	// BootstrapExpect is the number of nodes that bootstrap a new cluster together; 0: only join.
	BootstrapExpect int
	// Label keeps this cluster's gossip apart from others'.
	Label string
	// GossipKeyFile holds an AES key of 16, 24 or 32 bytes, raw or in base64. Empty:
	// no encryption, which is allowed on loopback only unless Insecure.
	GossipKeyFile string
	// GossipCIDRs are the networks that members may gossip from; none: any.
	GossipCIDRs []string
	// Regions are the regions to declare, at equal floors.
	Regions []string
	// RulesYAML is the text of the first rules, RulesFile its name in error messages.
	RulesYAML string
	RulesFile string
	// Lease is T of the budget protocol. RhoPPM is its bound on clock rates, in millionths.
	Lease  time.Duration
	RhoPPM int32
	// RaftMultiplier multiplies all of Raft's timeouts, 1 to 10.
	RaftMultiplier int
	// Insecure permits listening beyond loopback without encryption.
	Insecure bool
	// JoinFunc is how a node asks to become a member. Without it the node can only bootstrap.
	JoinFunc JoinFunc
	// Logger is required. Registerer may be nil: no metrics.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultConfig returns the defaults of the coordinator's flags. NodeID, DataDir and Logger remain to be set.
func DefaultConfig() Config {
	return Config{
		RaftListen:      "127.0.0.1:7401",
		GossipListen:    "127.0.0.1:7402",
		BootstrapExpect: 3,
		Label:           "aliquot",
		RulesFile:       "rules.yaml",
		Lease:           10 * time.Second,
		RhoPPM:          20_000,
		RaftMultiplier:  1,
	}
}

// Validate returns every error in c that can be found without disk and network. It parses the first rules, too.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !gossip.ValidNodeID(c.NodeID) {
		bad("--node-id %q: use 1 to 64 of the characters A-Z a-z 0-9 . _ -", c.NodeID)
	}
	if c.DataDir == "" {
		bad("--data-dir is empty: name a directory that belongs to this node alone")
	}
	if c.Logger == nil {
		bad("cluster: Config.Logger is nil")
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > state.MaxVoters {
		bad("--bootstrap-expect %d: use 1 to %d, or 0 to join only", c.BootstrapExpect, state.MaxVoters)
	}
	if c.Label == "" || len(c.Label) > maxLabelBytes {
		bad("--cluster-label %q: give 1 to %d bytes", c.Label, maxLabelBytes)
	}
	if c.RaftMultiplier < 1 || c.RaftMultiplier > maxRaftMultiplier {
		bad("--raft-multiplier %d: give 1 to %d", c.RaftMultiplier, maxRaftMultiplier)
	}
	if c.Lease < minLease || c.Lease > maxLease {
		bad("the lease %s must be between %s and %s", c.Lease, minLease, maxLease)
	}
	if c.RhoPPM < 0 || c.RhoPPM > maxRhoPPM {
		bad("rho of %d ppm must be between 0 and %d", c.RhoPPM, maxRhoPPM)
	}
	if err := state.CheckRegionNames(c.Regions); err != nil {
		bad("--regions: %w", err)
	}
	errs = append(errs, c.validateAddresses()...)
	if c.RulesYAML != "" {
		if _, _, err := rules.Parse(c.RulesFile, []byte(c.RulesYAML)); err != nil {
			bad("--rules: %w", err)
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateAddresses() (errs []error) {
	for _, listen := range []struct {
		flag, address string
		encrypted     bool
	}{
		{"--raft-listen", c.RaftListen, false},
		{"--gossip-listen", c.GossipListen, c.GossipKeyFile != ""},
	} {
		host, err := splitListen(listen.address)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s %q: %w", listen.flag, listen.address, err))
		case unspecified(host) && c.AdvertiseHost == "":
			errs = append(errs, fmt.Errorf("%s %q names no address that others could reach: set --advertise", listen.flag, listen.address))
		case !loopback(host) && !listen.encrypted && !c.Insecure:
			errs = append(errs, fmt.Errorf("%s %q is reachable from other machines without encryption: listen on loopback, encrypt, or say --insecure", listen.flag, listen.address))
		}
	}
	for _, cidr := range c.GossipCIDRs {
		if _, _, err := net.ParseCIDR(cidr); err != nil {
			errs = append(errs, fmt.Errorf("--gossip-cidr %q: give a network like 10.0.0.0/8", cidr))
		}
	}
	for _, address := range c.Join {
		if _, port, err := net.SplitHostPort(address); err != nil || !validPort(port, 1) {
			errs = append(errs, fmt.Errorf("--join %q: give host:port of another node's --gossip-listen", address))
		}
	}
	return errs
}

// splitListen returns the host of a listen address whose port is a number.
func splitListen(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("give host:port (%w)", err)
	}
	if !validPort(port, 0) {
		return "", fmt.Errorf("port %q must be a number up to 65535", port)
	}
	return host, nil
}

func validPort(port string, least int) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= least && n <= 65535
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// electionTimeout returns Raft's election timeout, the unit of most timeouts in this package.
func (c Config) electionTimeout() time.Duration {
	return time.Duration(c.RaftMultiplier) * time.Second
}

// loadGossipKey reads an AES key. It returns nil for no file.
func loadGossipKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("gossip key file: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("gossip key file %s may be read by everyone: chmod 600 it", path)
	}
	data, err := readBounded(path, maxKeyFileBytes)
	if err != nil {
		return nil, fmt.Errorf("gossip key file: %w", err)
	}
	// Base64 first: the text of a 16-byte key is as long as a raw 24-byte one.
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data))); err == nil && aesKey(key) {
		return key, nil
	}
	if aesKey(data) {
		return data, nil
	}
	return nil, fmt.Errorf("gossip key file %s must hold 16, 24 or 32 bytes, raw or in base64; it holds %d", path, len(data))
}

func aesKey(b []byte) bool { return len(b) == 16 || len(b) == 24 || len(b) == 32 }
