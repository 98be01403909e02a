package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/internal/rpc"
)

// Config are the settings of one coordinator. Every exported setting is a flag of the daemon with the
// same name. Start from DefaultConfig.
type Config struct {
	// NodeID names this coordinator. It stays the same for the life of its data directory.
	NodeID  string
	DataDir string
	// Listen serves Connect RPC and REST, OpsListen serves metrics and health. Both are host:port; port 0
	// means any free port.
	Listen       string
	RaftListen   string
	GossipListen string
	OpsListen    string
	// Advertise is the host under which others reach this coordinator; empty: the host of each listen
	// address.
	Advertise string
	// AllowHosts are further host names, without ports, that requests may name; see rpc.Hosts.
	AllowHosts []string
	// Join lists gossip addresses of other coordinators.
	Join []string
	// BootstrapExpect coordinators form a new cluster together.
	BootstrapExpect int
	// Regions and RulesFile are for the first boot of a cluster only.
	Regions   []string
	RulesFile string
	// ClusterLabel keeps clusters that can reach each other apart.
	ClusterLabel  string
	GossipKeyFile string
	// GossipCIDRs are the networks from which gossip is accepted; empty: any.
	GossipCIDRs []string
	// Insecure allows listening beyond loopback without TLS.
	Insecure bool
	// RaftMultiplier stretches all of Raft's timeouts, for slow networks and disks.
	RaftMultiplier int
	// Lease is T of the budget protocol. RhoPPM is its bound on the difference of clock rates, in
	// millionths. Like Regions they matter only at the first boot of a cluster.
	Lease  time.Duration
	RhoPPM int32

	// Logger is required.
	Logger *slog.Logger
	// Registry gets and serves the daemon's metrics; nil: a new one.
	Registry *prometheus.Registry
	// Now reads this machine's boot clock; nil: the kernel's. It must never go back.
	Now func() budget.Instant
	// OnListening, if not nil, is called once when all ports are open.
	OnListening func(Addresses)

	// cutOffAfter is for tests: how long requests in progress may take when the daemon stops; 0: drainTimeout.
	cutOffAfter time.Duration
}

// Addresses are the addresses that a daemon listens on, with the real port where the setting says 0.
type Addresses struct {
	RPC    string
	Raft   string
	Gossip string
	Ops    string
}

// DefaultConfig returns the documented defaults. NodeID, DataDir and Logger have none.
func DefaultConfig() Config {
	c := cluster.DefaultConfig()
	return Config{
		Listen:          "127.0.0.1:7400",
		RaftListen:      c.RaftListen,
		GossipListen:    c.GossipListen,
		OpsListen:       "127.0.0.1:7403",
		BootstrapExpect: c.BootstrapExpect,
		ClusterLabel:    c.Label,
		RaftMultiplier:  c.RaftMultiplier,
		Lease:           c.Lease,
		RhoPPM:          c.RhoPPM,
	}
}

// Validate returns every error in the settings that can be found without disk or network, joined; nil
// if there is none.
func (c Config) Validate() error {
	errs := []error{c.cluster().Validate()}
	seen := map[string]string{}
	for _, l := range [][2]string{
		{"listen", c.Listen}, {"raft-listen", c.RaftListen},
		{"gossip-listen", c.GossipListen}, {"ops-listen", c.OpsListen},
	} {
		flag, address := l[0], l[1]
		if other := seen[address]; other != "" && !strings.HasSuffix(address, ":0") {
			errs = append(errs, fmt.Errorf("--%s %s: --%s has the same address; give each listener its own port", flag, address, other))
		}
		seen[address] = flag
	}
	errs = append(errs, c.listener("listen", c.Listen), c.listener("ops-listen", c.OpsListen))
	return errors.Join(errs...)
}

// listener checks the address of one of the HTTP listeners.
func (c Config) listener(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("--%s %q: give host:port, like 127.0.0.1:7400", flag, address)
	case !c.Insecure && !rpc.IsLoopback(address):
		return fmt.Errorf("--%s %s is reachable from other machines, and there is no TLS yet: listen on 127.0.0.1, "+
			"or say --insecure to accept that anyone who can reach it can read and change the limits", flag, address)
	case flag == "listen" && c.Advertise == "" && unspecified(host):
		return fmt.Errorf("--listen %s names no address that others could reach: set --advertise", address)
	}
	return nil
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// cluster returns the settings for package cluster.
func (c Config) cluster() cluster.Config {
	out := cluster.DefaultConfig()
	out.NodeID, out.DataDir = c.NodeID, c.DataDir
	out.RaftListen, out.GossipListen, out.AdvertiseHost = c.RaftListen, c.GossipListen, c.Advertise
	out.Join, out.BootstrapExpect = c.Join, c.BootstrapExpect
	out.Label, out.GossipKeyFile, out.Insecure = c.ClusterLabel, c.GossipKeyFile, c.Insecure
	out.GossipCIDRs = c.GossipCIDRs
	out.Regions, out.Lease, out.RhoPPM = c.Regions, c.Lease, c.RhoPPM
	out.RaftMultiplier, out.Logger = c.RaftMultiplier, c.Logger
	return out
}

// hosts returns the host names that requests may name.
func (c Config) hosts() rpc.Hosts {
	return rpc.NewHosts(append(slices.Clone(c.AllowHosts), c.Advertise)...)
}

// advertised returns the address under which others reach a listener.
func (c Config) advertised(listening net.Addr) string {
	host, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return listening.String()
	}
	if c.Advertise != "" {
		host = c.Advertise
	}
	return net.JoinHostPort(host, port)
}
