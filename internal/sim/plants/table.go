package plants

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// line is a verdict as `-output json` prints it.
type line struct {
	Name     string `json:"name"`
	Breaks   string `json:"breaks"`
	Caught   bool   `json:"caught"`
	Harmless string `json:"harmless,omitempty"`
	World    World  `json:"world"`
	Sim      Catch  `json:"simulator"`
	Check    Catch  `json:"checker"`
	Test     Catch  `json:"tests"`
}

// WriteJSON writes one verdict as one line.
func (v *Verdict) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(line{
		Name: v.Plant.Name, Breaks: v.Plant.Breaks, Caught: v.Caught(), Harmless: v.Plant.Harmless,
		World: v.Plant.World, Sim: v.Sim, Check: v.Check, Test: v.Test,
	})
}

// Heading is above the lines that WriteText writes.
const Heading = "plant                             simulator                          checker                                what it does wrong\n"

// WriteText writes one verdict as a line of a table.
func (v *Verdict) WriteText(w io.Writer) error {
	simulator, checker := v.Sim.simulated(), v.Check.checked()
	switch {
	case v.Test.Caught:
		checker = "test " + v.Test.Test
	case v.AsExpected() && !v.Caught():
		simulator, checker = "nothing seen", ""
	case !v.Caught():
		simulator, checker = "NOT CAUGHT", fmt.Sprintf("%d worlds, %.1f s", v.Sim.Worlds, v.Sim.Worked.Seconds())
	}
	_, err := fmt.Fprintf(w, "%-32s  %-33s  %-37s  %s\n", v.Plant.Name, simulator, checker, v.Plant.Breaks)
	return err
}

// simulated is where and when the simulator saw something broken.
func (c *Catch) simulated() string {
	if !c.Caught {
		return "-"
	}
	return fmt.Sprintf("seed %d, at %v, %.1f s", c.Seed, c.Virtual.Round(time.Second), c.Worked.Seconds())
}

// checked is where the checker did.
func (c *Catch) checked() string {
	if !c.Caught {
		return "-"
	}
	return fmt.Sprintf("%s, %d states, %.1f s", c.Scenario, c.States, c.Worked.Seconds())
}
