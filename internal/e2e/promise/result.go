// Package promise compares what was seen of an installation of processes with what is promised.
package promise

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
)

// Result is one promise with what was seen.
type Result struct {
	Promise string
	Want    string
	Got     string
	OK      bool
}

// AtMost is the promise of a figure that is at most so large.
func AtMost(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf("<= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got <= want}
}

// AtLeast is the promise of a figure that is at least so large.
func AtLeast(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf(">= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got >= want}
}

// None is the promise of a count that is 0; detail says what was counted.
func None(promise string, n int64, detail any) Result {
	r := Result{Promise: promise, Want: "0", Got: fmt.Sprint(n), OK: n == 0}
	if n != 0 {
		r.Got += fmt.Sprintf(" %v", detail)
	}
	return r
}

// Bounded are the promises of every run.
func Bounded(r *bench.Report) []Result {
	return []Result{AtMost("gain over the run", r.Gain, 1), AtMost("gain over its worst interval", r.Worst.Gain, 1)}
}

// Unfailing is the promise of a run in which every check was answered.
func Unfailing(r *bench.Report) Result {
	return None("checks without an answer", r.Failed, r.Errors)
}

// PrintResults prints promises as a table, and reports whether all of them held.
func PrintResults(w io.Writer, results []Result) (ok bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	ok = true
	for _, r := range results {
		mark := "ok"
		if !r.OK {
			mark, ok = "FAILED", false
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", mark, r.Promise, r.Got, r.Want)
	}
	t.Flush()
	return ok
}

// Prefixed puts text before each promise, in place, and returns them.
func Prefixed(what string, results ...Result) []Result {
	for i := range results {
		results[i].Promise = what + results[i].Promise
	}
	return results
}

// UnfailingBut is Unfailing for all regions but one; nil: for all.
func UnfailingBut(r *bench.Report, dead *e2e.Region) Result {
	n, detail := int64(0), ""
	for _, region := range r.Regions {
		if dead == nil || region.Address != dead.Address {
			n += region.Failed
			detail += fmt.Sprint(region.Errors)
		}
	}
	return None("checks without an answer where the daemon lived", n, detail)
}

// Milliseconds is a time in milliseconds, with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
