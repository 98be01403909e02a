package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newCluster(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "The coordinators and regions"}
	cmd.AddCommand(newClusterStatus(g), newClusterMembers(g), newClusterRemove(g), newClusterTiming(g))
	return cmd
}

func newClusterStatus(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Example: "  aliquot cluster status --addr c2:7400",
		Short:   "Show a coordinator's view of the cluster; exits with 1 if there is no leader",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := status(g, cmd)
			if err != nil {
				return err
			}
			if err := g.Print(status, func(w io.Writer) { printStatus(w, status) }); err != nil {
				return err
			}
			if status.GetLeaderId() == "" {
				return fmt.Errorf("no coordinator leads: %s knows of no leader. Regions still serve their shares, and 2 leases later their floors. Start the others, or look at their logs", status.GetNodeId())
			}
			return nil
		},
	}
}

func newClusterMembers(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Example: "  aliquot cluster members",
		Short:   "List the member coordinators, as one of them knows them",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := status(g, cmd)
			if err != nil {
				return err
			}
			// It has the form of remove's answer, so that a program that reads one can read the other.
			members := &aliquotv1.RemoveMemberResponse{Members: status.Members}
			return g.Print(members, func(w io.Writer) { printMembers(w, status.Members) })
		},
	}
}

// status asks a coordinator for its view of the cluster.
func status(g *console.Globals, cmd *cobra.Command) (*aliquotv1.GetStatusResponse, error) {
	ctx, cancel := g.Call(cmd)
	defer cancel()
	status, err := g.Cluster().GetStatus(ctx, &aliquotv1.GetStatusRequest{})
	return status, g.Explain(err, console.ACoordinator, g.Coordinator())
}

func newClusterRemove(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NODE",
		Example: "  aliquot cluster remove c3",
		Short:   "Remove a coordinator from the cluster",
		Long: `Removes a coordinator from the cluster for good, by its node id. If its process still
runs, it notices that and exits. With an empty data directory it can join again.

The command is refused if the remaining voters that answer are not a majority. It is
also refused for the leader: stop that process first. A cluster that has lost its
majority has no leader and cannot remove a member: start its coordinators again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := g.Call(cmd)
			defer cancel()
			left, err := g.Cluster().RemoveMember(ctx, &aliquotv1.RemoveMemberRequest{NodeId: args[0]})
			if err != nil {
				return g.ExplainChange(err, "aliquot cluster status")
			}
			return g.Print(left, func(w io.Writer) {
				fmt.Fprintf(w, "%s is removed; what remains:\n\n", args[0])
				printMembers(w, left.Members)
			})
		},
	}
}

func printStatus(w io.Writer, s *aliquotv1.GetStatusResponse) {
	leader := s.LeaderId
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(w, "node %s (%s)  version %s  cluster %s\nleader %s  term %d  applied %d  epoch %d\nrules version %d  hot keys %d\n",
		s.NodeId, s.State, console.OrDash(s.Version), console.OrDash(s.ClusterId), leader, s.Term, s.AppliedIndex, s.Epoch, s.RulesVersion, s.HotKeys)
	printTiming(w, s.Timing)
	fmt.Fprintln(w)
	printMembers(w, s.Members)
	fmt.Fprintln(w)
	rows := [][]string{{"REGION", "STATE", "FLOOR", "LEASE", "RULES"}}
	for _, r := range s.Regions {
		if s.LeaderId == "" { // nobody hears them, and they serve on
			rows = append(rows, []string{r.Name, "serving alone", console.Percent(r.Floor), "-", "-"})
			continue
		}
		rows = append(rows, []string{r.Name, stateText(r), console.Percent(r.Floor), leaseText(r), rulesText(r)})
	}
	console.Columns(w, rows)
}

func printMembers(w io.Writer, members []*aliquotv1.Member) {
	rows := [][]string{{"COORDINATOR", "RPC", "RAFT", "SUFFRAGE", "LEADER", "GOSSIP"}}
	for _, m := range members {
		rows = append(rows, []string{m.NodeId, console.OrDash(m.Address), console.OrDash(m.RaftAddress), m.Suffrage, yes(m.Leader), console.OrDash(m.Gossip)})
	}
	console.Columns(w, rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
