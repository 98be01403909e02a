package ruleset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/durable"
	"aliquot/internal/snapshot"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// NewSnapshot returns the command snapshot with its subcommands.
func NewSnapshot(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the rules and entries of the cluster in a file, and restore them",
		Long: "Saves the rules of a cluster and the entries above them in a file with a checksum.\n" +
			"Budgets, shares and usage are of the moment: they are not in it, and no restore takes them back.",
	}
	cmd.AddCommand(newSnapshotSave(g), newSnapshotInspect(g), newSnapshotRestore(g))
	return cmd
}

func newSnapshotSave(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "save FILE",
		Example: "  aliquot snapshot save backup.aqs",
		Short:   "Save the rules and entries that a coordinator has applied (- writes standard output)",
		Long: "Saves the rules and entries that a coordinator has applied. Any coordinator answers, also one that has lost its quorum.\n" +
			"The file replaces another one of its name only when it is whole.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := g.Call(cmd)
			defer cancel()
			file, err := readSnapshotOf(ctx, g)
			if err != nil {
				return g.Explain(err, console.ACoordinator, g.Coordinator())
			}
			shot, err := snapshot.Decode(file)
			if err != nil {
				return err
			}
			if args[0] == "-" {
				_, err := g.Out.Write(file)
				return err
			}
			if err := durable.WriteFile(args[0], file); err != nil {
				return err
			}
			return g.Print(shot, func(w io.Writer) {
				fmt.Fprintf(w, "%s: rules version %d and %d entries of cluster %s, %d bytes\n", args[0], shot.GetRulesVersion(), len(shot.GetEntries()), shot.GetClusterId(), len(file))
			})
		},
	}
}

// readSnapshotOf reads the file that a coordinator streams.
func readSnapshotOf(ctx context.Context, g *console.Globals) ([]byte, error) {
	stream, err := g.Cluster().SaveSnapshot(ctx, &aliquotv1.SaveSnapshotRequest{})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var file []byte
	for stream.Receive() {
		if file = append(file, stream.Msg().GetData()...); len(file) > snapshot.MaxBytes {
			return nil, fmt.Errorf("more than %d bytes came", snapshot.MaxBytes)
		}
	}
	return file, stream.Err()
}

func newSnapshotInspect(g *console.Globals) *cobra.Command {
	var rulesFile, entries string
	cmd := &cobra.Command{
		Use:     "inspect FILE",
		Example: "  aliquot snapshot inspect backup.aqs\n  aliquot snapshot inspect backup.aqs --rules rules.yaml --entries entries.yaml",
		Short:   "Verify a file and show what is in it; no coordinator is asked",
		Long: "Verifies the checksum of a file and shows what is in it. --rules and --entries write its two parts, for 'aliquot rules apply'\n" +
			"and 'aliquot entries import' in another cluster. No coordinator is asked.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&rulesFile, "rules", "", "`file` to write the rules to")
	cmd.Flags().StringVar(&entries, "entries", "", "`file` to write the entries to")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		_, shot, err := readSnapshot(g, args[0])
		if err != nil {
			return err
		}
		if rulesFile != "" {
			if err := durable.WriteFile(rulesFile, []byte(shot.GetRulesYaml())); err != nil {
				return err
			}
		}
		if entries != "" {
			if err := writeEntries(entries, shot); err != nil {
				return err
			}
		}
		return g.Print(shot, func(w io.Writer) { printSnapshot(w, shot) })
	}
	return cmd
}

// readSnapshot reads a file and verifies it.
func readSnapshot(g *console.Globals, path string) ([]byte, *aliquotv1.Snapshot, error) {
	in, name, err := openInput(g, path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	file, err := io.ReadAll(io.LimitReader(in, snapshot.MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	shot, err := snapshot.Decode(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return file, shot, nil
}

func writeEntries(name string, shot *aliquotv1.Snapshot) error {
	file := entriesFile{Entries: []entryText{}}
	for _, e := range rules.EntriesOf(shot.GetEntries()) {
		file.Entries = append(file.Entries, entryTextOf(e))
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	return durable.WriteFile(name, text)
}

func printSnapshot(w io.Writer, s *aliquotv1.Snapshot) {
	fmt.Fprintf(w, "cluster %s, saved at %s by %s (version %s)\n", s.GetClusterId(), console.Instant(s.GetTakenUnixMs()), s.GetNodeId(), console.OrDash(s.GetVersion()))
	if s.GetRulesVersion() == 0 {
		fmt.Fprintln(w, "there were no rules")
	} else {
		fmt.Fprintf(w, "rules version %d by %s at %s, %d lines\n", s.GetRulesVersion(), console.OrDash(s.GetRulesAuthor()), console.Instant(s.GetRulesUnixMs()), bytes.Count([]byte(s.GetRulesYaml()), []byte("\n")))
	}
	fmt.Fprintf(w, "%d entries; log index %d, epoch %d, %d hot keys\n\n", len(s.GetEntries()), s.GetAppliedIndex(), s.GetEpoch(), s.GetHotKeys())
	rows := [][]string{{"REGION", "STATUS", "WEIGHT", "FLOOR"}}
	for _, r := range s.GetRegions() {
		rows = append(rows, []string{r.GetName(), r.GetStatus(), fmt.Sprint(r.GetWeight()), console.Percent(r.GetFloor())})
	}
	console.Columns(w, rows)
}

func newSnapshotRestore(g *console.Globals) *cobra.Command {
	var by changeFlags
	cmd := &cobra.Command{
		Use:     "restore FILE",
		Example: "  aliquot snapshot restore backup.aqs --comment 'back to before the change'",
		Short:   "Put the rules and entries of a file in force again, exactly as they were",
		Long: "Puts the rules and entries of a file in force again, as new versions, in the cluster that it was saved from. Entries that\n" +
			"are not in the file are removed, and those whose time is over stay away. Budgets, floors, regions and timing stay as they\n" +
			"are, so nothing that was handed out since is handed out twice. A damaged file and one of another cluster are refused.",
		Args: cobra.ExactArgs(1),
	}
	by.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, _, err := readSnapshot(g, args[0])
		if err != nil {
			return err
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		res, err := sendSnapshot(ctx, g, file, by)
		if err != nil {
			return g.ExplainChange(err, "aliquot rules history")
		}
		for _, warning := range res.GetWarnings() {
			fmt.Fprintln(g.Err, "warning:", warning)
		}
		return g.Print(res, func(w io.Writer) {
			fmt.Fprintf(w, "version %d is in force, with %d entries\n", res.GetRulesVersion(), res.GetEntries())
			if n := res.GetEntriesOver(); n > 0 {
				fmt.Fprintf(w, "%d entries are over and were left out\n", n)
			}
			for _, kept := range res.GetNotRestored() {
				fmt.Fprintln(w, "not restored:", kept)
			}
		})
	}
	return cmd
}

func sendSnapshot(ctx context.Context, g *console.Globals, file []byte, by changeFlags) (*aliquotv1.RestoreSnapshotResponse, error) {
	stream, err := g.Cluster().RestoreSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(file, snapshot.PartBytes) {
		err := stream.Send(&aliquotv1.RestoreSnapshotRequest{Data: part, Author: by.author, Comment: by.comment})
		if errors.Is(err, io.EOF) {
			break // the coordinator has refused it, and says why
		}
		if err != nil {
			return nil, err
		}
	}
	return stream.CloseAndReceive()
}
