package ruleset

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// NewEntries returns the command entries with its subcommands. Entries take precedence over the rules
// file.
func NewEntries(g *console.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entries",
		Short: "Blocks, allows, overrides and tiers, which take precedence over the rules file",
		Long: "Blocks, allows, overrides and values of tiers take precedence over the rules file. They hold\n" +
			"through every apply, rollback and stage, until a command removes them or their time ends.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEntriesList(g), newEntriesRemove(g), newEntriesExport(g), newEntriesImport(g), newEntriesHistory(g))
	return cmd
}

func newEntriesList(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Example: "  aliquot entries list",
		Short:   "List the entries with what they set and the rules that they hold for",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := getRules(g, cmd, 0)
			if err != nil {
				return err
			}
			// The file is another command's.
			shown := &aliquotv1.GetRulesResponse{Version: answer.GetVersion(), Entries: answer.GetEntries(), EntriesRevision: answer.GetEntriesRevision()}
			return g.Print(shown, func(w io.Writer) { printEntries(w, shown) })
		},
	}
}

func printEntries(w io.Writer, r *aliquotv1.GetRulesResponse) {
	if len(r.GetEntries()) == 0 {
		fmt.Fprintln(w, "no entries; 'aliquot block', 'allow' and 'override' make some, and PUT /rules/tier/TIER does")
		return
	}
	rows := [][]string{{"ENTRY", "VALUE", "RULES", "UNTIL", "BY", "REASON"}}
	for _, m := range r.GetEntries() {
		e := rules.EntryOf(m)
		holds := strings.Join(m.GetRuleIds(), ",")
		if m.GetWithoutEffect() != "" {
			holds = "without effect"
		}
		rows = append(rows, []string{e.EntryID.String(), console.OrDash(e.Value()), console.OrDash(holds), untilText(e.UntilMS), console.OrDash(e.By), e.Reason})
	}
	console.Columns(w, rows)
	for _, m := range r.GetEntries() {
		if why := m.GetWithoutEffect(); why != "" {
			fmt.Fprintf(w, "%v is without effect: %s\n", rules.EntryOf(m).EntryID, why)
		}
	}
}

func untilText(unixMS int64) string {
	if unixMS == 0 {
		return "-"
	}
	return console.Instant(unixMS)
}

// printEntryChange prints what a change of entries did.
func printEntryChange(w io.Writer, c *aliquotv1.EntryChange) {
	if c == nil {
		return
	}
	line := func(sign string, m *aliquotv1.Entry) {
		e := rules.EntryOf(m)
		text := sign + " " + e.EntryID.String()
		if e.Value() != "" {
			text += " (" + e.Value() + ")"
		}
		if e.UntilMS != 0 {
			text += " until " + console.Instant(e.UntilMS)
		}
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		fmt.Fprintln(w, text)
	}
	for _, m := range c.GetRemoved() {
		line("-", m)
	}
	for _, m := range c.GetPut() {
		line("+", m)
	}
	if more := int(c.GetPuts()+c.GetRemovals()) - len(c.GetPut()) - len(c.GetRemoved()); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// printTierRules prints what a change of a tier made of its rules.
func printTierRules(w io.Writer, changed []*aliquotv1.TierRule) {
	if len(changed) == 0 {
		return
	}
	rows := [][]string{{"RULE", "BEFORE", "NOW", ""}}
	for _, r := range changed {
		rows = append(rows, []string{r.GetRuleId(), limitText(r.GetBefore()), limitText(r.GetAfter()), r.GetWhyNot()})
	}
	console.Columns(w, rows)
}

func limitText(l *aliquotv1.TierLimit) string {
	if l.GetRefillRate() > 0 {
		return fmt.Sprintf("%d, %s/s", l.GetLimit(), console.Figure(l.GetRefillRate()))
	}
	return fmt.Sprintf("%d in %s", l.GetLimit(), console.Duration(l.GetWindow()))
}

func newEntriesHistory(g *console.Globals) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "history",
		Example: "  aliquot entries history --limit 5",
		Short:   "List the changes of entries, the latest first",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return console.Usagef("--limit %d: give 1 or more", limit)
		}
		ctx, cancel := g.Call(cmd)
		defer cancel()
		answer, err := g.RuleService().GetRules(ctx, &aliquotv1.GetRulesRequest{EntryChanges: true})
		if err != nil {
			return g.Explain(err, console.ACoordinator, g.Coordinator())
		}
		changes := answer.GetEntryChanges()
		shown := &aliquotv1.GetRulesResponse{
			Version: answer.GetVersion(), EntriesRevision: answer.GetEntriesRevision(), EntryChanges: changes[:min(len(changes), limit)],
		}
		return g.Print(shown, func(w io.Writer) {
			for _, c := range shown.GetEntryChanges() {
				fmt.Fprintf(w, "revision %d at %s by %s: %s\n", c.GetRevision(), console.Instant(c.GetUnixMs()), console.OrDash(c.GetAuthor()), c.GetComment())
				printEntryChange(w, c)
			}
		})
	}
	return cmd
}

func newEntriesRemove(g *console.Globals) *cobra.Command {
	var by changeFlags
	cmd := &cobra.Command{
		Use:               "remove (block PATTERN | allow PATTERN | override RULE PATTERN | tier TIER)",
		ValidArgsFunction: g.EntryNames,
		Short:             "Remove an entry: the rules file holds again",
		Example:           "  aliquot entries remove block 'sk_leaked_*'\n  aliquot entries remove override per-key sk_partner\n  aliquot entries remove tier pro",
		Args:              cobra.RangeArgs(2, 3),
	}
	by.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e := &aliquotv1.Entry{Kind: args[0], Name: args[len(args)-1]}
		switch kind := rules.EntryKind(args[0]); {
		case kind == rules.OverrideEntry && len(args) == 3:
			e.RuleId = args[1]
		case kind == rules.OverrideEntry:
			return console.Usagef("an override is of a rule; give both, as 'aliquot entries list' shows them")
		case kind != rules.BlockEntry && kind != rules.AllowEntry && kind != rules.TierEntry:
			return console.Usagef("%q is not a kind of entry; give block, allow, override or tier, and its name", args[0])
		case len(args) == 3:
			return console.Usagef("a %s has one name, found %q and %q", kind, args[1], args[2])
		}
		return editEntries(g, cmd, &aliquotv1.EntriesEdit{Remove: []*aliquotv1.Entry{e}}, by)
	}
	return cmd
}

func editEntries(g *console.Globals, cmd *cobra.Command, e *aliquotv1.EntriesEdit, by changeFlags) error {
	return applyRuleChange(g, cmd, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		return g.RuleService().EditRules(ctx, &aliquotv1.EditRulesRequest{
			Edit: &aliquotv1.EditRulesRequest_Entries{Entries: e}, Author: by.author, Comment: by.comment,
		})
	})
}

// entriesFile is what export writes and import reads.
type entriesFile struct {
	Entries []entryText `json:"entries" yaml:"entries"`
}

// entryText is an entry in a file; what is empty is not stated.
type entryText struct {
	Kind       string `json:"kind" yaml:"kind"`
	Rule       string `json:"rule,omitempty" yaml:"rule,omitempty"`
	Pattern    string `json:"pattern,omitempty" yaml:"pattern,omitempty"`
	Tier       string `json:"tier,omitempty" yaml:"tier,omitempty"`
	Limit      int64  `json:"limit,omitempty" yaml:"limit,omitempty"`
	Capacity   int64  `json:"capacity,omitempty" yaml:"capacity,omitempty"`
	RefillRate string `json:"refill_rate,omitempty" yaml:"refill_rate,omitempty"`
	Window     string `json:"window,omitempty" yaml:"window,omitempty"`
	Until      string `json:"until,omitempty" yaml:"until,omitempty"`
	Reason     string `json:"reason,omitempty" yaml:"reason,omitempty"`
	By         string `json:"by,omitempty" yaml:"by,omitempty"`
}

func entryTextOf(e rules.Entry) entryText {
	out := entryText{
		Kind: string(e.Kind), Rule: e.Rule, Pattern: e.Name, Limit: e.Limit, Capacity: e.Capacity, RefillRate: e.RefillRate, Reason: e.Reason, By: e.By,
	}
	if e.Kind == rules.TierEntry {
		out.Pattern, out.Tier = "", e.Name
	}
	if e.Window != 0 {
		out.Window = e.Window.String()
	}
	if e.UntilMS != 0 {
		out.Until = time.UnixMilli(e.UntilMS).UTC().Format(time.RFC3339Nano)
	}
	return out
}

// message is the entry as a request carries it; an error names the field.
func (t *entryText) message() (*aliquotv1.Entry, error) {
	out := &aliquotv1.Entry{
		Kind: t.Kind, RuleId: t.Rule, Name: t.Pattern, Limit: t.Limit, Capacity: t.Capacity, RefillRate: t.RefillRate, Reason: t.Reason, Author: t.By,
	}
	if t.Tier != "" {
		if t.Pattern != "" {
			return nil, fmt.Errorf("tier and pattern are both given; give one")
		}
		out.Name = t.Tier
	}
	if t.Window != "" {
		window, err := time.ParseDuration(t.Window)
		if err != nil {
			return nil, fmt.Errorf("window %q: give a duration such as 1m", t.Window)
		}
		out.WindowMicros = window.Microseconds()
	}
	if t.Until != "" {
		until, err := time.Parse(time.RFC3339, t.Until)
		if err != nil {
			return nil, fmt.Errorf("until %q: give a time with date and zone, such as 2030-01-31T18:00:00Z", t.Until)
		}
		out.UntilUnixMs = until.UnixMilli()
	}
	return out, nil
}

func newEntriesExport(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Example: "  aliquot entries export > entries.yaml",
		Short:   "Write the entries to standard output, as a file for import",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := getRules(g, cmd, 0)
			if err != nil {
				return err
			}
			file := entriesFile{Entries: []entryText{}}
			for _, e := range rules.EntriesOf(answer.GetEntries()) {
				file.Entries = append(file.Entries, entryTextOf(e))
			}
			var text []byte
			return g.PrintValue(file, func(w io.Writer) {
				if text, err = yaml.Marshal(file); err == nil { // strings and numbers can always be written
					_, _ = w.Write(text)
				}
			})
		},
	}
}

func newEntriesImport(g *console.Globals) *cobra.Command {
	var by changeFlags
	var replace bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Put the entries of a file, all or none (- reads standard input)",
		Long: "Puts the entries of a file that export wrote, all or none. An entry whose rule or tier does not\n" +
			"exist is put too, and has no effect until it exists. Entries whose time is over are left out.",
		Example: "  aliquot entries export > entries.yaml\n  aliquot entries import entries.yaml --replace",
		Args:    cobra.ExactArgs(1),
	}
	by.add(cmd)
	cmd.Flags().BoolVar(&replace, "replace", false, "remove every entry that is not in the file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, name, err := readRules(g, args[0])
		if err != nil {
			return err
		}
		put, over, err := readEntries(data, time.Now())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if over > 0 {
			fmt.Fprintf(g.Err, "warning: %d entries of the file are over and were left out\n", over)
		}
		if len(put) == 0 && !replace {
			fmt.Fprintln(g.Err, "there is nothing to put")
			return nil
		}
		if by.comment == "" {
			by.comment = "import of " + strconv.Itoa(len(put)) + " entries"
		}
		return editEntries(g, cmd, &aliquotv1.EntriesEdit{Put: put, Replace: replace, WithoutEffect: true}, by)
	}
	return cmd
}

// readEntries reads a file of entries, without those that are over.
func readEntries(data []byte, now time.Time) (put []*aliquotv1.Entry, over int, err error) {
	var file entriesFile
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return nil, 0, fmt.Errorf("this is no file of entries: %s", console.FirstLine(err))
	}
	for i := range file.Entries {
		e, err := file.Entries[i].message()
		if err != nil {
			return nil, 0, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if e.UntilUnixMs != 0 && e.UntilUnixMs <= now.UnixMilli() {
			over++
			continue
		}
		put = append(put, e)
	}
	return put, over, nil
}
