package check

import (
	"fmt"
	"strings"
	"time"
)

// Bound ends a search that has not ended by itself; zero values set no bound.
type Bound struct {
	States int
	Depth  int
	Time   time.Duration
	// Workers search at the same time; 0: one.
	Workers int
}

// Result is what a search came to.
type Result struct {
	Scenario    string
	States      int // distinct, after canonicalisation
	Transitions int64
	Depth       int  // events from the root that were searched whole
	Quanta      int  // the longest time that passed in a path
	Recoveries  int  // states from which the world was made to recover
	Whole       bool // there is nothing more to search
	Took        time.Duration
	Violation   *Violation
}

// String is a line about the search.
func (r *Result) String() string {
	end := "bounded"
	if r.Whole {
		end = "whole"
	}
	line := fmt.Sprintf("%-22s %9d states %10d transitions  depth %3d  %2d quanta  %6d recoveries  %6.1f s  %s",
		r.Scenario, r.States, r.Transitions, r.Depth, r.Quanta, r.Recoveries, r.Took.Seconds(), end)
	if r.Violation != nil {
		line += "  VIOLATION: " + r.Violation.What
	}
	return line
}

// Violation is a promise broken, and a shortest path to it.
type Violation struct {
	Scenario string
	What     string
	Path     []string // in words
	Replay   string   // for Scenario.Replay
}

// String tells what happened, event by event.
func (v *Violation) String() string {
	return fmt.Sprintf("%s: %s\n  %s\nreplay: -scenario %s -replay %s",
		v.Scenario, v.What, strings.Join(v.Path, "\n  "), v.Scenario, v.Replay)
}
