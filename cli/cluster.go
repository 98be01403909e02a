package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newCluster(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "The coordinators and regions"}
	cmd.AddCommand(&cobra.Command{
		Use:   "status",
		Short: "A coordinator's view of the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := g.call(cmd)
			defer cancel()
			status, err := g.cluster().GetStatus(ctx, &aliquotv1.GetStatusRequest{})
			if err != nil {
				return g.explain(err, aCoordinator, g.coordinator())
			}
			return g.print(status, func(w io.Writer) { printStatus(w, status) })
		},
	})
	return cmd
}

func printStatus(w io.Writer, s *aliquotv1.GetStatusResponse) {
	leader := s.LeaderId
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(w, "node %s (%s)  version %s  cluster %s\nleader %s  term %d  applied %d  epoch %d\nrules version %d  hot keys %d\n\n",
		s.NodeId, s.State, orDash(s.Version), orDash(s.ClusterId), leader, s.Term, s.AppliedIndex, s.Epoch, s.RulesVersion, s.HotKeys)
	rows := [][]string{{"COORDINATOR", "RPC", "RAFT", "SUFFRAGE", "LEADER", "GOSSIP"}}
	for _, m := range s.Members {
		rows = append(rows, []string{m.NodeId, orDash(m.Address), orDash(m.RaftAddress), m.Suffrage, yes(m.Leader), orDash(m.Gossip)})
	}
	columns(w, rows)
	fmt.Fprintln(w)
	rows = [][]string{{"REGION", "STATE", "FLOOR", "LEASE", "RULES"}}
	for _, r := range s.Regions {
		rows = append(rows, []string{r.Name, r.State, percent(r.Floor), duration(r.LeaseRemaining), strconv.FormatUint(r.RulesVersion, 10)})
	}
	columns(w, rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
