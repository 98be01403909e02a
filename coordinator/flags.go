package coordinator

import "github.com/spf13/pflag"

// Bind adds the daemon's flags to fs, in the order of its help. They set c, whose values are their
// defaults.
func (c *Config) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.NodeID, "node-id", c.NodeID, "`name` of this coordinator, which its data directory keeps for life")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "`directory` of the replicated log, for this coordinator alone")
	fs.StringVar(&c.Listen, "listen", c.Listen, "`address` for Connect RPC, gRPC and REST")
	fs.StringVar(&c.RaftListen, "raft-listen", c.RaftListen, "`address` for Raft between coordinators")
	fs.StringVar(&c.GossipListen, "gossip-listen", c.GossipListen, "`address` for gossip between coordinators (TCP and UDP)")
	fs.StringVar(&c.OpsListen, "ops-listen", c.OpsListen, "`address` for /metrics, /healthz and /readyz")
	fs.StringVar(&c.Advertise, "advertise", c.Advertise, "`host` under which others reach this coordinator (default: the host of each listen address)")
	fs.StringSliceVar(&c.AllowHosts, "allow-host", c.AllowHosts, "`names` without a port, a,b,c, that requests may use for this coordinator; addresses, --advertise, the machine's name and names that are not public are always allowed")
	fs.StringSliceVar(&c.Join, "join", c.Join, "gossip `addresses` of other coordinators, host:port,...")
	fs.IntVar(&c.BootstrapExpect, "bootstrap-expect", c.BootstrapExpect, "`number` of coordinators that form a new cluster together; 0: join one only")
	fs.StringSliceVar(&c.Regions, "regions", c.Regions, "`names` of the regions of a new cluster, a,b,c (first boot only)")
	fs.StringVar(&c.RulesFile, "rules", c.RulesFile, "rules `file` of a new cluster (first boot only)")
	fs.StringVar(&c.ClusterLabel, "cluster-label", c.ClusterLabel, "`label` that keeps this cluster's gossip apart from that of others")
	fs.StringVar(&c.GossipKeyFile, "gossip-key-file", c.GossipKeyFile, "`file` with the AES key of the gossip: 16, 24 or 32 bytes, raw or base64")
	fs.StringSliceVar(&c.GossipCIDRs, "gossip-cidr", c.GossipCIDRs, "`networks` that may send gossip, CIDR,... (default: any)")
	fs.BoolVar(&c.Insecure, "insecure", c.Insecure, "listen without TLS where other machines can reach it")
	fs.IntVar(&c.RaftMultiplier, "raft-multiplier", c.RaftMultiplier, "`factor` of Raft's timeouts, which are about a second: 1 to 10")
}
