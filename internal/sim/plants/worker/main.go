// Command worker looks for a broken promise and prints what it found as JSON: in worlds
// of the simulator, one after the other, or in the scenarios of the exhaustive checker.
// Package plants builds it from changed sources.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"
)

// found is read by package plants.
type found struct {
	What   string `json:"what,omitempty"` // empty: nothing was broken
	Worked int64  `json:"worked_ms"`      // time of a core
	// Of the simulator: the last world, how many were lived through, and when in the
	// life of the last one.
	Seed   uint64 `json:"seed"`
	Worlds int    `json:"worlds"`
	At     int64  `json:"at_ms"`
	// Of the checker: the scenario, how many states were searched in it, and the number
	// of events to the broken promise.
	Scenario string `json:"scenario"`
	States   int    `json:"states"`
	Events   int    `json:"events"`
}

func main() {
	atMost := flag.Duration("for", time.Minute, "at most so much time of a core")
	checking := flag.Bool("check", false, "search the checker's scenarios, not the simulator's worlds")
	scenarios := flag.String("scenarios", "", "these, with commas between")
	states := flag.Int("states", 200_000, "at most so many states of a scenario")
	worlds := declareWorlds()
	flag.Parse()
	var f found
	var err error
	if *checking {
		f = explore(*scenarios, *states, *atMost)
	} else {
		f, err = worlds.live(*atMost)
	}
	f.Worked = worked().Milliseconds()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// worked is how much time of a core this process has had: the time by the wall
// depends on what else the machine does.
func worked() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
