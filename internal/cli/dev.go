package cli

import (
	"os"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/config"
	"aliquot/internal/dev"
)

func newDev(g *console.Globals) *cobra.Command {
	var (
		c     = dev.DefaultConfig()
		level string
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run coordinators and regions in this process, to try them",
		Long: `Runs the real daemons in this process, on loopback: coordinator i on ports 7400+10i
(RPC), +1 (Raft), +2 (gossip), +3 (metrics and health); region i on 7500+10i (RPC),
+1 (gRPC), +2, +3 likewise. Prints every address and an example. When every region has
a lease, prints "ready" and commands to try. Logs go to standard error. Ctrl-C stops it.

Once it is ready it reads lines: 'cut eu-west' disconnects a region from the coordinators,
and 'heal eu-west' connects it again.`,
		Example: `  aliquot dev
  aliquot dev --redis redis://127.0.0.1:7600,redis://127.0.0.1:7610,redis://127.0.0.1:7620 --rtt 80ms`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&c.Coordinators, "coordinators", c.Coordinators, "how many coordinators (an odd number)")
	f.StringSliceVar(&c.Regions, "regions", c.Regions, "the regions' names")
	f.StringVar(&c.RulesFile, "rules", "", "rules to start with (default an example: 300 burst, 100/s for each api_key)")
	f.StringSliceVar(&c.Redis, "redis", nil, "a Redis URL for each region, in order (default: stores in memory)")
	f.DurationVar(&c.RTT, "rtt", 0, "round-trip time between regions and coordinators, half of it each way;\ncoordinators among themselves and clients are not slowed")
	f.IntVar(&c.PortOffset, "port-offset", 0, "added to every port")
	f.StringVar(&c.DataDir, "data-dir", "", "keep the state here (default: a temporary directory, removed at exit)")
	f.StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := config.NewLogger(g.Err, level, "text")
		if err != nil {
			return console.AsUsage(err)
		}
		c.In, c.Out, c.Logger, c.Program = g.In, g.Out, log, os.Args[0]
		if err := c.Validate(); err != nil {
			return console.AsUsage(err)
		}
		return dev.Run(cmd.Context(), c)
	}
	return cmd
}
