package ruleset

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// stageFlags ask for some regions first.
type stageFlags struct {
	regions      []string
	promoteAfter time.Duration
	haltAbove    float64
}

func (f *stageFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.regions, "stage-regions", nil, "only in these regions at first; see 'rules promote' and 'rules abort'")
	flags.DurationVar(&f.promoteAfter, "promote-after", 0, "with --stage-regions: everywhere after so long without a halt, 10s to 24h (default: only by 'rules promote')")
	flags.Float64Var(&f.haltAbove, "halt-above", 0.05, "with --stage-regions: back again once the share of requests they deny is higher by this")
}

// stage is nil without regions.
func (f *stageFlags) stage(cmd *cobra.Command) (*aliquotv1.Stage, error) {
	changed := cmd.Flags().Changed
	if len(f.regions) == 0 {
		if changed("promote-after") || changed("halt-above") {
			return nil, console.Usagef("--promote-after and --halt-above go with --stage-regions")
		}
		return nil, nil
	}
	out := &aliquotv1.Stage{Regions: f.regions}
	if changed("promote-after") {
		out.PromoteAfter = durationpb.New(f.promoteAfter)
	}
	if changed("halt-above") {
		out.HaltAbove = &f.haltAbove
	}
	return out, nil
}

func newRulesPromote(g *console.Globals) *cobra.Command {
	return newRolloutEnd(g, "promote [VERSION]", "Bring the staged version into force everywhere", func(cmd *cobra.Command, version uint64, author string) error {
		return applyRuleChange(g, cmd, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
			return g.RuleService().PromoteRules(ctx, &aliquotv1.PromoteRulesRequest{Version: version, Author: author})
		})
	})
}

func newRulesAbort(g *console.Globals) *cobra.Command {
	return newRolloutEnd(g, "abort [VERSION]", "End a staged roll-out: its regions return to the text in force", func(cmd *cobra.Command, version uint64, author string) error {
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.RuleService().AbortRules(ctx, &aliquotv1.AbortRulesRequest{Version: version, Author: author})
		if err != nil {
			return explainChange(g, err)
		}
		return g.Print(answer, func(w io.Writer) {
			fmt.Fprintf(w, "version %d is aborted; version %d, the text of before, is in force\n", version, answer.GetVersion())
		})
	})
}

// newRolloutEnd returns a command that ends the roll-out of the version that is named, or of the staged one.
func newRolloutEnd(g *console.Globals, use, short string, end func(cmd *cobra.Command, version uint64, author string) error) *cobra.Command {
	var by changeFlags
	verb, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{Use: use, Short: short, Example: "  aliquot rules " + verb, Args: cobra.MaximumNArgs(1)}
	by.addAuthor(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		version, err := stagedVersion(g, cmd, args)
		if err != nil {
			return err
		}
		return end(cmd, version, by.author)
	}
	return cmd
}

// stagedVersion is the version that is named, else the one that is staged.
func stagedVersion(g *console.Globals, cmd *cobra.Command, args []string) (uint64, error) {
	if len(args) == 1 {
		return versionArg(args[0])
	}
	answer, err := getRules(g, cmd, 0)
	if err != nil {
		return 0, err
	}
	if r := answer.GetRollout(); r.GetState() == "staged" {
		return r.GetVersion(), nil
	}
	return 0, fmt.Errorf("nothing changed: no version is staged; version %d is in force everywhere", answer.GetVersion())
}

// rolloutText says how a roll-out stands.
func rolloutText(r *aliquotv1.Rollout) string {
	where := strings.Join(r.GetRegions(), ", ")
	if r.GetState() != "staged" {
		return fmt.Sprintf("version %d, staged in %s, was %s: %s", r.GetVersion(), where, r.GetState(), r.GetReason())
	}
	until := "until 'aliquot rules promote' or 'aliquot rules abort'"
	if at := r.GetPromoteAtUnixMs(); at != 0 {
		until = "until " + console.Instant(at) + ", unless it is halted"
	}
	return fmt.Sprintf("version %d is staged in %s %s", r.GetVersion(), where, until)
}
