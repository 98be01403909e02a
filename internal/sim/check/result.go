package check

import (
	"fmt"
	"strings"

	"aliquot/internal/sim/check/search"
)

// Result is the result of a search.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	// Faults and Turns are the most that a path has, by the scenario.
	Faults int `json:"faults"`
	Turns  int `json:"turns"`
	search.Figures
	Violation *Violation `json:"violation,omitempty"`
}

// Header is the heading of the lines that String returns.
const Header = "scenario                          states  transitions  depth  quanta  faults  turns  recoveries   seconds  ended by"

// String returns a line of a table about the search.
func (r *Result) String() string {
	line := fmt.Sprintf("%-30s %9d  %11d  %5d  %6d  %6d  %5d  %10d  %8.1f  %s",
		r.Scenario, r.States, r.Transitions, r.Depth, r.Quanta, r.Faults, r.Turns, r.Recoveries, r.Took.Seconds(), r.End)
	if r.Violation != nil {
		line += ": " + r.Violation.What
	}
	return line
}

// Violation is a broken promise, with a shortest path to it.
type Violation struct {
	Scenario string   `json:"scenario"`
	What     string   `json:"what"`
	Path     []string `json:"path"`   // in words
	Replay   string   `json:"replay"` // for Scenario.Replay
}

// String describes what happened, event by event.
func (v *Violation) String() string {
	return fmt.Sprintf("%s: %s\n  %s\nreplay: -scenario %s -replay %s",
		v.Scenario, v.What, strings.Join(v.Path, "\n  "), v.Scenario, v.Replay)
}
