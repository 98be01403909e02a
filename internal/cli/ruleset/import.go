package ruleset

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/envoyimport"
)

// NewImport returns the command import with its subcommands.
func NewImport(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Turn the configuration of another rate limiter into a rules file"}
	cmd.AddCommand(newImportEnvoy(g))
	return cmd
}

func newImportEnvoy(g *console.Globals) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "envoy-ratelimit FILE...",
		Example: "  aliquot import envoy-ratelimit config/*.yaml --write rules.yaml",
		Short:   "Configuration files of envoyproxy/ratelimit (- reads standard input)",
		Long: "Turns configuration files of envoyproxy/ratelimit into one rules file; - reads standard\n" +
			"input. Files of the same domain are merged. The same files give the same text.\n\n" +
			"The command prints what it cannot translate, and what differs, to standard error as\n" +
			"file:line:column: text, with the place of the descriptor. Check it, then bring\n" +
			"the file into force with `aliquot rules plan` and `aliquot rules apply`.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files := make([]envoyimport.File, 0, len(args))
			for _, arg := range args {
				data, name, err := readRules(g, arg)
				if err != nil {
					return err
				}
				files = append(files, envoyimport.File{Name: name, Data: data})
			}
			return importEnvoy(g, files, to)
		},
	}
	cmd.Flags().StringVar(&to, "write", "-", "file to write the rules to; - is standard output")
	return cmd
}

func importEnvoy(g *console.Globals, files []envoyimport.File, to string) error {
	imported, err := envoyimport.Import(files)
	if err != nil {
		return err
	}
	for _, note := range imported.Notes {
		fmt.Fprintln(g.Err, note)
	}
	fmt.Fprintf(g.Err, "%d rules; remarks: %d\n", imported.Rules, len(imported.Notes))
	if to != "-" {
		return os.WriteFile(to, imported.YAML, 0o644)
	}
	shown := map[string]any{"rules": imported.Rules, "yaml": string(imported.YAML)}
	return g.PrintValue(shown, func(w io.Writer) { _, _ = w.Write(imported.YAML) })
}
