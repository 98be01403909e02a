package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/internal/rpc"
)

// Config is what one coordinator is started with. Every exported setting is a flag
// of the daemon of the same name.
type Config struct {
	// NodeID names this coordinator, the same for the life of its data directory.
	NodeID  string
	DataDir string
	// Listen serves Connect RPC and REST, OpsListen metrics and health; both are
	// host:port, port 0 for any free one.
	Listen       string
	RaftListen   string
	GossipListen string
	OpsListen    string
	// Advertise is the host that others reach this one by; empty: that of the
	// listen addresses.
	Advertise string
	// AllowHosts are more names, without ports, by which this one may be asked; see rpc.Hosts.
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
	// GossipCIDRs are the networks that gossip is taken from; none: any.
	GossipCIDRs []string
	// Insecure allows listening beyond loopback without TLS.
	Insecure bool
	// RaftMultiplier stretches all of Raft's timeouts, for slow networks and disks.
	RaftMultiplier int
	// Lease is T of the budget protocol and RhoPPM its bound on clock rates, in
	// millionths; like Regions they matter at a cluster's first boot only.
	Lease  time.Duration
	RhoPPM int32

	// Logger is required.
	Logger *slog.Logger
	// Now reads this machine's boot clock; nil: the kernel's. Every reading must be
	// at least the one before.
	Now func() budget.Instant
	// OnListening, if not nil, is called once when all ports are open.
	OnListening func(Addresses)
}

// Addresses are what a daemon listens on, with the real port where 0 was asked for.
type Addresses struct {
	RPC    string
	Raft   string
	Gossip string
	Ops    string
}

// DefaultConfig is the documented defaults; NodeID, DataDir and Logger have none.
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

// Validate reports everything that is wrong with the settings and can be known
// without touching disk or network.
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

// cluster is the part of the settings that package cluster takes.
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

// hosts are the names by which the coordinator may be asked.
func (c Config) hosts() rpc.Hosts {
	return rpc.NewHosts(append(slices.Clone(c.AllowHosts), c.Advertise)...)
}

// advertised is where others reach the RPC listener that has this port.
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
