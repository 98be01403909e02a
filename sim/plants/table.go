package plants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// line is a verdict as `-output json` prints it.
type line struct {
	Name      string   `json:"name"`
	Breaks    string   `json:"breaks"`
	Caught    bool     `json:"caught"`
	Seed      uint64   `json:"seed,omitempty"`
	Worlds    int      `json:"worlds"`
	VirtualMS int64    `json:"virtual_ms,omitempty"`
	WorkedMS  int64    `json:"worked_ms"`
	What      string   `json:"violation,omitempty"`
	Regions   int      `json:"regions,omitempty"`
	Keys      int      `json:"keys,omitempty"`
	Faults    []string `json:"faults,omitempty"`
	Just      bool     `json:"no_other_faults,omitempty"`
	Harmless  string   `json:"harmless,omitempty"`
}

// WriteJSON writes one verdict as one line.
func (v *Verdict) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(line{
		Name: v.Plant.Name, Breaks: v.Plant.Breaks, Caught: v.Caught, Seed: v.Seed, Worlds: v.Worlds,
		VirtualMS: v.Virtual.Milliseconds(), WorkedMS: v.Worked.Milliseconds(), What: v.What,
		Regions: v.Plant.World.Regions, Keys: v.Plant.World.Keys, Faults: v.Plant.World.Faults, Just: v.Plant.World.Just, Harmless: v.Plant.Harmless,
	})
}

// Heading is above the lines that WriteText writes.
const Heading = "plant                             caught by         after (virtual)  worlds  core     what it does wrong\n"

// WriteText writes one verdict as a line of a table.
func (v *Verdict) WriteText(w io.Writer) error {
	by, virtual := "NOT CAUGHT", ""
	switch {
	case v.Caught:
		by, virtual = fmt.Sprintf("sim, seed %d", v.Seed), v.Virtual.Round(100*time.Millisecond).String()
	case v.Plant.Harmless != "":
		by = "breaks nothing"
	}
	_, err := fmt.Fprintf(w, "%-32s  %-16s  %-15s  %6d  %-7v  %s\n", v.Plant.Name, by, virtual, v.Worlds, v.Worked.Round(10*time.Millisecond), v.Plant.Breaks)
	return err
}

// Marks between which the table stands in the page about planted bugs.
const (
	tableBegins = "<!-- table: written by `make plants-doc` -->\n"
	tableEnds   = "<!-- end of table -->\n"
)

// WriteDoc puts the table of all verdicts into the page at path.
func WriteDoc(path string, verdicts []Verdict) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table", path)
	}
	var b bytes.Buffer
	b.WriteString(before + tableBegins)
	b.WriteString("\n| plant | what the code does wrong | caught by | virtual time in that world | time of a core |\n|---|---|---|---|---|\n")
	for _, v := range verdicts {
		if v.Plant.Harmless == "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Plant.Name, v.Plant.Breaks, v.cells())
		}
	}
	b.WriteString("\nPlants that break nothing:\n\n| plant | what the code does otherwise | why it is safe |\n|---|---|---|\n")
	for _, v := range verdicts {
		if v.Plant.Harmless != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Plant.Name, v.Plant.Breaks, v.Plant.Harmless)
		}
	}
	b.WriteString("\n" + tableEnds + after)
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// cells are the columns about where a plant was caught.
func (v *Verdict) cells() string {
	if !v.Caught {
		return "**not caught** | |"
	}
	return fmt.Sprintf("simulator, seed %d | %.1f s | %.1f s", v.Seed, v.Virtual.Seconds(), v.Worked.Seconds())
}
