package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func newRegion(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "region", Short: "Show and change the regions and their floors"}
	cmd.AddCommand(newRegionList(g), newRegionAdd(g), newRegionWeight(g), newRegionDrain(g), newRegionFence(g))
	return cmd
}

func newRegionList(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Example: "  aliquot region list",
		Short:   "List the declared regions",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := g.Call(cmd)
			defer cancel()
			answer, err := g.Regions().ListRegions(ctx, &aliquotv1.ListRegionsRequest{})
			if err != nil {
				return g.Explain(err, console.ACoordinator, g.Coordinator())
			}
			return g.Print(answer, func(w io.Writer) { printDeclared(w, answer.Regions...) })
		},
	}
}

func newRegionAdd(g *console.Globals) *cobra.Command {
	var weight int32
	cmd := &cobra.Command{
		Use:     "add NAME",
		Example: "  aliquot region add sa-east --weight 2",
		Short:   "Declare a region, or take back a drained or fenced one",
		Long: "Declares a region, or takes back a drained or fenced one. It gets an empty floor when its daemon has sent Hello\n" +
			"and the other regions have made room: a few seconds.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Int32Var(&weight, "weight", 1, "its part in the floors, 1 to 1000, relative to the others'")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return changeRegion(g, cmd, func(ctx context.Context) (regionAnswer, error) {
			return g.Regions().AddRegion(ctx, &aliquotv1.AddRegionRequest{Name: args[0], Weight: weight})
		})
	}
	return cmd
}

func newRegionWeight(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:               "weight NAME WEIGHT",
		ValidArgsFunction: g.Nth(0, console.RegionIDs),
		Short:             "Change a region's part in the floors",
		Example:           "  aliquot region weight us-east 3",
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			weight, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil {
				return console.Usagef("weight %q: give a whole number from 1 to 1000", args[1])
			}
			return changeRegion(g, cmd, func(ctx context.Context) (regionAnswer, error) {
				return g.Regions().UpdateRegion(ctx, &aliquotv1.UpdateRegionRequest{Name: args[0], Weight: int32(weight)})
			})
		},
	}
}

func newRegionDrain(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:               "drain NAME",
		Example:           "  aliquot region drain sa-east",
		ValidArgsFunction: g.Nth(0, console.RegionIDs),
		Short:             "Take away a region's floor and shares, step by step",
		Long: "Takes away a region's floor and shares in acknowledged steps. Its daemon denies afterwards what any coordinated limit\n" +
			"applies to, so send it no traffic. Limits with enforcement: independent go on there until the daemon is stopped.\n" +
			"`aliquot region list` shows drained when nothing is left; then the daemon may be stopped.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeRegion(g, cmd, func(ctx context.Context) (regionAnswer, error) {
				return g.Regions().DrainRegion(ctx, &aliquotv1.DrainRegionRequest{Name: args[0]})
			})
		},
	}
}

func newRegionFence(g *console.Globals) *cobra.Command {
	var dead bool
	cmd := &cobra.Command{
		Use:               "fence NAME --dead",
		Example:           "  aliquot region fence sa-east --dead",
		ValidArgsFunction: g.Nth(0, console.RegionIDs),
		Short:             "Give what a dead region held to the others at once",
		Long: "Gives what a region held to the others at once. You confirm that none of its daemons admits requests any more. If one does,\n" +
			"its requests come on top of the limits. Drain a region that can be reached instead.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "confirms that every daemon of the region is stopped for good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !dead {
			return console.Usagef("fence %s: say --dead if every daemon of the region is stopped; else use `aliquot region drain %s`", args[0], args[0])
		}
		return changeRegion(g, cmd, func(ctx context.Context) (regionAnswer, error) {
			return g.Regions().FenceRegion(ctx, &aliquotv1.FenceRegionRequest{Name: args[0]})
		})
	}
	return cmd
}

// regionAnswer is the answer to any change of a region.
type regionAnswer interface {
	proto.Message
	GetRegion() *aliquotv1.Region
}

// changeRegion makes a change by call, and prints the region of the answer.
func changeRegion(g *console.Globals, cmd *cobra.Command, call func(context.Context) (regionAnswer, error)) error {
	ctx, cancel := g.Call(cmd)
	defer cancel()
	answer, err := call(ctx)
	if err != nil {
		return g.ExplainChange(err, "aliquot region list")
	}
	return g.Print(answer, func(w io.Writer) { printDeclared(w, answer.GetRegion()) })
}

// stateText returns the state of a region, and whether its daemon is without its store.
func stateText(r *aliquotv1.Region) string {
	if r.GetStoreless() {
		return r.GetState() + " (without its store)"
	}
	return r.GetState()
}

// leaseText returns the time until a region's lease ends. The leader that opened a session, or that is new, does not
// know until when an earlier lease lasts, and tells 0.
func leaseText(r *aliquotv1.Region) string {
	if left := r.GetLeaseRemaining(); left.AsDuration() > 0 || r.GetState() != "no_session" && r.GetState() != "unknown" {
		return console.Duration(left)
	}
	return "?"
}

// rulesText returns the version of the rules that a region enforces. A leader that has not heard of it reports 0.
func rulesText(r *aliquotv1.Region) string {
	if version := r.GetRulesVersion(); version > 0 || r.GetState() != "no_session" && r.GetState() != "unknown" {
		return strconv.FormatUint(version, 10)
	}
	return "?"
}

func printDeclared(w io.Writer, regions ...*aliquotv1.Region) {
	rows := [][]string{{"REGION", "STATUS", "STATE", "WEIGHT", "FLOOR", "TARGET", "LEASE", "RULES"}}
	for _, r := range regions {
		floor := console.Percent(r.GetFloor())
		if r.GetFloorBound() > r.GetFloor() {
			floor += fmt.Sprintf(" (of %s not acknowledged)", console.Percent(r.GetFloorBound()))
		}
		rows = append(rows, []string{r.GetName(), console.OrDash(r.GetStatus()), stateText(r), strconv.Itoa(int(r.GetWeight())), floor,
			console.Percent(r.GetTargetFloor()), leaseText(r), rulesText(r)})
	}
	console.Columns(w, rows)
}
