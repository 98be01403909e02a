package main

import (
	"encoding/json"
	"fmt"
	"io"

	"aliquot/internal/sim"
	"aliquot/internal/sim/compare"
	"aliquot/internal/sim/faults"
)

// report is a run's result as it is written.
type report struct {
	sim.Result
	// Whole: the run was not interrupted.
	Whole bool `json:"whole"`
	// HoursDone are virtual hours, and the rates are per virtual second.
	HoursDone          float64 `json:"virtual_hours"`
	DecisionsPerSecond float64 `json:"decisions_per_second"`
	MovesPerSecond     float64 `json:"share_moves_per_second"`
	Singles            []count `json:"faults_by_kind"`
	Steady             []count `json:"steady_trouble"`
	// Limiters is nil if they were not compared.
	Limiters *compare.Table `json:"limiters,omitempty"`
}

// count is how often there was a kind of fault.
type count struct {
	Name  string `json:"name"`
	Times int64  `json:"times"`
}

func reportOf(r sim.Result, worlds int) report {
	seconds := max(r.Virtual.Seconds(), 1)
	out := report{
		Result: r, Whole: r.Worlds == worlds, HoursDone: r.Virtual.Hours(),
		DecisionsPerSecond: float64(r.Decisions) / seconds, MovesPerSecond: float64(r.Moves) / seconds,
	}
	for kind, n := range r.Kinds {
		c := count{faults.Kind(kind).String(), n}
		if faults.Kind(kind).Steady() {
			out.Steady = append(out.Steady, c)
		} else {
			out.Singles = append(out.Singles, c)
		}
	}
	return out
}

func (r report) writeJSON(w io.Writer) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(r) // to the standard output: nobody is left to tell
}

func (r report) writeText(w io.Writer) {
	if r.Limiters != nil {
		r.Limiters.WriteText(w)
		fmt.Fprintln(w)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(w, v)
	}
	if !r.Whole {
		fmt.Fprintln(w, "interrupted; this is what there was up to then")
	}
	fmt.Fprintf(w, "%-52s %12d\n", "worlds", r.Worlds)
	fmt.Fprintf(w, "%-52s %12.1f\n", "virtual hours", r.HoursDone)
	fmt.Fprintf(w, "%-52s %12d\n", "faults", r.Faults)
	for _, c := range r.Singles {
		fmt.Fprintf(w, "  %-50s %12d\n", c.Name, c.Times)
	}
	fmt.Fprintln(w, "and all the time, in some of the worlds")
	for _, c := range r.Steady {
		fmt.Fprintf(w, "  %-50s %12d\n", c.Name, c.Times)
	}
	fmt.Fprintf(w, "%-52s %12.1f\n", "decisions a virtual second", r.DecisionsPerSecond)
	fmt.Fprintf(w, "%-52s %12.3f\n", "share moves a virtual second", r.MovesPerSecond)
	fmt.Fprintf(w, "%-52s %12d\n", "admitted, tokens", r.Admitted)
	fmt.Fprintf(w, "%-52s %12.6f\n", "largest admitted / allowed since a world began", r.Closest)
	fmt.Fprintf(w, "%-52s %12.6f\n", "largest part of a burst used, over any interval", r.BurstUsed)
	fmt.Fprintf(w, "%-52s %12x\n", "hash of the run", r.Hash)
	fmt.Fprintf(w, "violations: %d\n", r.Violated)
}
