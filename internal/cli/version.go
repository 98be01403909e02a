package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/config"
)

// newVersion returns the command that says which build this is.
func newVersion(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Example: "  aliquot version",
		Short:   "Show the version of this build ('aliquot cluster status' shows a coordinator's)",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			shown := map[string]string{"version": config.Version(), "go": runtime.Version(), "platform": platform}
			return g.PrintValue(shown, func(w io.Writer) {
				fmt.Fprintf(w, "aliquot %s (%s, %s)\n", config.Version(), runtime.Version(), platform)
			})
		},
	}
}
