// Package promise compares what was measured on a cluster of real processes with what is promised.
package promise

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
)

// Result is one promise and what was measured.
type Result struct {
	Promise string
	Want    string
	Got     string
	OK      bool
}

// AtMost returns the result of the promise that a figure is at most want.
func AtMost(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf("<= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got <= want}
}

// AtLeast returns the result of the promise that a figure is at least want.
func AtLeast(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf(">= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got >= want}
}

// None returns the result of the promise that a count is 0. If it is not, the result shows detail.
func None(promise string, n int64, detail any) Result {
	r := Result{Promise: promise, Want: "0", Got: fmt.Sprint(n), OK: n == 0}
	if n != 0 {
		r.Got += fmt.Sprintf(" %v", detail)
	}
	return r
}

// Bounded returns the promises of every run: a client gets at most its limit, over the run and in each interval.
func Bounded(r *bench.Report) []Result {
	return []Result{AtMost("gain over the run", r.Gain, 1), AtMost("gain over its worst interval", r.Worst.Gain, 1)}
}

// AllAnswered returns the promise that every check of a run was answered.
func AllAnswered(r *bench.Report) Result {
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

// Prefixed puts text before the name of each promise, in place, and returns the results.
func Prefixed(prefix string, results ...Result) []Result {
	for i := range results {
		results[i].Promise = prefix + results[i].Promise
	}
	return results
}

// AllAnsweredExcept is AllAnswered for all regions except dead; nil: for all.
func AllAnsweredExcept(dead *e2e.Region, r *bench.Report) Result {
	n, detail := int64(0), ""
	for _, region := range r.Regions {
		if dead == nil || region.Address != dead.Address {
			n += region.Failed
			detail += fmt.Sprint(region.Errors)
		}
	}
	return None("checks without an answer where the daemon lived", n, detail)
}

// Milliseconds returns a time in milliseconds, with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
