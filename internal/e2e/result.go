package e2e

import (
	"fmt"
	"io"
	"text/tabwriter"

	"aliquot/internal/bench"
)

// Result is one promise with what was seen.
type Result struct {
	Promise string
	Want    string
	Got     string
	OK      bool
}

// atMost and atLeast compare a measured figure with a promise.
func atMost(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf("<= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got <= want}
}

func atLeast(promise string, got, want float64) Result {
	return Result{Promise: promise, Want: fmt.Sprintf(">= %.4g", want), Got: fmt.Sprintf("%.4f", got), OK: got >= want}
}

func none(promise string, n int64, detail any) Result {
	r := Result{Promise: promise, Want: "0", Got: fmt.Sprint(n), OK: n == 0}
	if n != 0 {
		r.Got += fmt.Sprintf(" %v", detail)
	}
	return r
}

// bounded are the promises of every run.
func bounded(r *bench.Report) []Result {
	return []Result{atMost("gain over the run", r.Gain, 1), atMost("gain over its worst interval", r.Worst.Gain, 1)}
}

func unfailing(r *bench.Report) Result {
	return none("checks without an answer", r.Failed, r.Errors)
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

func prefixed(what string, results ...Result) []Result {
	for i := range results {
		results[i].Promise = what + results[i].Promise
	}
	return results
}

func unfailingBut(r *bench.Report, dead *Region) Result {
	n, detail := int64(0), ""
	for _, region := range r.Regions {
		if dead == nil || region.Address != dead.Address {
			n += region.Failed
			detail += fmt.Sprint(region.Errors)
		}
	}
	return none("checks without an answer where the daemon lived", n, detail)
}
