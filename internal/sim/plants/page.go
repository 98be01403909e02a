package plants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page is about planted bugs, from the root of the module, and the table stands in it
// between two marks.
const (
	page        = "docs/benchmarks/planted-bugs.md"
	tableBegins = "<!-- table: written by `make plants-doc` -->\n"
	tableEnds   = "<!-- end of table -->\n"
)

// WriteDoc puts the table of all plants into the page of the module at root.
func WriteDoc(root string, known map[string]Sighting) error {
	path := filepath.Join(root, filepath.FromSlash(page))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err = withTable(text, known)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// withTable is the page with the table as it has to be.
func withTable(text []byte, known map[string]Sighting) ([]byte, error) {
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s has no place for the table", page)
	}
	return []byte(before + tableBegins + tables(known) + tableEnds + after), nil
}

// tables are the plants that are caught, and those of which nothing is expected to be seen.
func tables(known map[string]Sighting) string {
	var caught, harmless strings.Builder
	n, bySim, byCheck, byTest := 0, 0, 0, 0
	for _, p := range All() {
		if p.Harmless != "" {
			fmt.Fprintf(&harmless, "| `%s` | %s | %s |\n", p.Name, p.Breaks, p.Harmless)
			continue
		}
		n++
		simulator, checker := "", ""
		s := known[p.Name]
		if s.Seed != 0 {
			bySim++
			simulator = fmt.Sprintf("seed %d", s.Seed)
		}
		if s.Scenario != "" {
			byCheck++
			checker = "`" + s.Scenario + "`"
		}
		if s.Seed == 0 && s.Scenario == "" && s.Test != "" {
			byTest++
			checker = "test: " + strings.Replace(s.Test, " ", ", ", 1)
		}
		if s == (Sighting{}) {
			simulator = "**not caught**"
		}
		fmt.Fprintf(&caught, "| `%s` | %s%s | %s | %s |\n", p.Name, p.Breaks, p.World.words(), simulator, checker)
	}
	return fmt.Sprintf(`
%d plants: the simulator catches %d, the checker %d, and %d more fail a test of the machines' packages.

| plant | what the code does wrong (and the worlds in which it is looked for) | simulator | checker, or test |
|---|---|---|---|
%s
Neither search has seen anything of these changes. For most it is argued that they break no promise, mostly because a
second guard holds. An argument is no proof. Where one says that something was not found, the code may well be needed:

| plant | what the code does otherwise | why nothing is seen of it |
|---|---|---|
%s
`, n, bySim, byCheck, byTest, caught.String(), harmless.String())
}

// words say what is special about the worlds; nothing if they are as the seed draws.
func (w *World) words() string {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(w.Regions != 0, "%d regions", w.Regions)
	add(w.Keys == 1, "one key")
	add(w.Keys > 1, "%d keys", w.Keys)
	add(w.Burst != 0, "%d tokens, %d a second", w.Burst, w.Rate)
	add(w.Lease != 0, "leases of %v", w.Lease)
	add(w.RhoPPM != 0, "rho %d %%", w.RhoPPM/10_000)
	add(w.Chunks, "chunks of every key")
	add(w.Just, "nothing but %s", strings.Join(w.Faults, ", "))
	add(!w.Just && len(w.Faults) > 0, "always %s", strings.Join(w.Faults, ", "))
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}
