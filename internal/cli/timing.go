package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newClusterTiming(g *console.Globals) *cobra.Command {
	var lease time.Duration
	var rho float64
	cmd := &cobra.Command{
		Use:   "timing",
		Short: "Show or change the lease and the bound on clock rates",
		Long: `Without flags, show the lease T and rho, the bound on the ratio of any two clocks'
rates, minus 1.

A region may spend what it was lent for T after its last renewal. A region that is
cut off takes back its floor after 2T(1+rho)^3.

A change of T takes two steps. At first leases are granted for the shorter of the old
and the new T, and everyone waits for the longer. The second step follows when every
region has acknowledged a longer lease, or when the last longer one has ended. A larger
rho holds once every region has acknowledged it.`,
		Example: "  aliquot cluster timing --lease 5s --rho 0.02",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&lease, "lease", 0, "the lease T, 2s to 10m (default: as it is)")
	cmd.Flags().Float64Var(&rho, "rho", 0, "the bound on clock rates, 0.001 to 0.2 (default: as it is)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("lease") && !cmd.Flags().Changed("rho") {
			status, err := status(g, cmd)
			if err != nil {
				return err
			}
			answer := &aliquotv1.SetTimingResponse{Timing: status.Timing}
			return g.Print(answer, func(w io.Writer) { printTiming(w, answer.Timing) })
		}
		req := &aliquotv1.SetTimingRequest{}
		if cmd.Flags().Changed("lease") {
			req.Lease = durationpb.New(lease)
		}
		if cmd.Flags().Changed("rho") {
			req.Rho = &rho
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.Cluster().SetTiming(ctx, req)
		if err != nil {
			return g.ExplainChange(err, "aliquot cluster timing")
		}
		return g.Print(answer, func(w io.Writer) { printTiming(w, answer.Timing) })
	}
	return cmd
}

// printTiming prints lease and rho in one line.
func printTiming(w io.Writer, t *aliquotv1.Timing) {
	if t == nil {
		fmt.Fprintln(w, "this coordinator does not report lease and rho: it is of an older version")
		return
	}
	fmt.Fprintf(w, "lease %s", console.Duration(t.GetLease()))
	if t.GetLeaseNext() != nil {
		fmt.Fprintf(w, " (becomes %s; until then everyone waits for %s)", console.Duration(t.GetLeaseNext()), console.Duration(t.GetLeaseWait()))
	}
	fmt.Fprintf(w, "  rho %s", strconv.FormatFloat(t.GetRho(), 'g', -1, 64))
	if t.GetRhoRising() {
		fmt.Fprint(w, " (not acknowledged by every region yet)")
	}
	fmt.Fprintln(w)
}
