package e2e

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"aliquot/internal/bench"
)

// Result is one promise with what was seen.
type Result struct {
	Promise string
	Want    string
	Got     string
	OK      bool
}

// AtMost and AtLeast compare a measured figure with a promise.
func AtMost(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf("<= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got <= want}
}

func AtLeast(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf(">= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got >= want}
}

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

func Prefixed(what string, results ...Result) []Result {
	for i := range results {
		results[i].Promise = what + results[i].Promise
	}
	return results
}

func UnfailingBut(r *bench.Report, dead *Region) Result {
	n, detail := int64(0), ""
	for _, region := range r.Regions {
		if dead == nil || region.Address != dead.Address {
			n += region.Failed
			detail += fmt.Sprint(region.Errors)
		}
	}
	return None("checks without an answer where the daemon lived", n, detail)
}

func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
