package check

import (
	"fmt"
	"strings"
	"time"
)

// Bound ends a search before it is exhausted. Zero values set no bound.
type Bound struct {
	States int
	Depth  int
	Time   time.Duration
	// Workers is how many goroutines search; 0: one.
	Workers int
}

// End says what ended a search.
type End string

// The ends of a search. In each of them no path has more faults and turns than its scenario allows.
const (
	Exhausted   End = "exhausted" // there is nothing more to search
	StatesFound End = "states"    // Bound.States
	DepthFound  End = "depth"     // Bound.Depth
	TimeOver    End = "time"      // Bound.Time
	Broken      End = "violation"
)

// Result is the result of a search.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	// Faults and Turns are the most that a path has, by the scenario.
	Faults      int           `json:"faults"`
	Turns       int           `json:"turns"`
	States      int           `json:"states"` // distinct, after canonicalisation
	Transitions int64         `json:"transitions"`
	Depth       int           `json:"depth"`      // events from the root that were searched completely
	Quanta      int           `json:"quanta"`     // the longest time of a path
	Recoveries  int           `json:"recoveries"` // states from which the world was made to recover
	End         End           `json:"end"`
	Took        time.Duration `json:"took_ns"`
	Violation   *Violation    `json:"violation,omitempty"`
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
