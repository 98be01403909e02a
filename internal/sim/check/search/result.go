// Package search explores, breadth first, everything that can happen to a state.
package search

import "time"

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

// The ends of a search.
const (
	Exhausted   End = "exhausted" // there is nothing more to search
	StatesFound End = "states"    // Bound.States
	DepthFound  End = "depth"     // Bound.Depth
	TimeOver    End = "time"      // Bound.Time
	Broken      End = "violation"
)

// Figures are what a search has come to.
type Figures struct {
	States      int           `json:"states"` // distinct, after canonicalisation
	Transitions int64         `json:"transitions"`
	Depth       int           `json:"depth"`      // events from the root that were searched completely
	Quanta      int           `json:"quanta"`     // the longest time of a path
	Recoveries  int           `json:"recoveries"` // states from which the world was made to recover
	End         End           `json:"end"`
	Took        time.Duration `json:"took_ns"`
}

// Result is the result of a search.
type Result[E any] struct {
	Figures
	// Path is the shortest path to what is broken; nil: nothing is.
	Path []E
}
