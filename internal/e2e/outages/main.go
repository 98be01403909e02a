// Command outages runs real processes and breaks the store of one region in many ways. It prints how many requests
// below the limit were refused, what greedy clients gained, and how long the region took to recover. It exits with 1 if
// a promise did not hold. Run it at the top of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"aliquot/internal/e2e"
)

func main() {
	o := Outages{}
	flag.IntVar(&o.Runs, "runs", 5, "how many times each fault comes")
	flag.StringVar(&o.Only, "only", "", "run only faults whose name contains this")
	regions := flag.Int("regions", 0, "how many regions; 0: one, and then three but with --matrix")
	matrix := flag.Bool("matrix", false, "every fault with every algorithm, instead of the table of faults that users met")
	doc := flag.String("doc", "", "with --matrix: the file that the table is written to, between two marks")
	verbose := flag.Bool("v", false, "a line for each run")
	e2e.Main("outages", nil, func(ctx context.Context, bin, dir string) (bool, error) {
		if *regions > 0 {
			o.Regions = []int{*regions}
		}
		if *verbose {
			o.Log = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
		}
		if !*matrix {
			results, err := o.Run(ctx, bin, dir)
			return table(os.Stdout, results), err
		}
		if len(o.Regions) == 0 {
			o.Regions = []int{1}
		}
		results, err := o.Matrix(ctx, bin, dir)
		if err == nil && *doc != "" {
			err = writePage(*doc, results)
		}
		return table(os.Stdout, results), err
	})
}

// table prints results as a table, and reports whether all promises held.
func table(w io.Writer, results []OutageResult) (ok bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tfault\tregions\tenforcement\trefused\tof\tunanswered\tgain\tnormal after\tp99 before\tfirst second\tlater")
	ok = true
	for i := range results {
		r := &results[i]
		mark := "ok"
		switch late, before := r.Late(); {
		case !r.OK(), late && !before:
			mark, ok = "FAILED", false
		case before:
			mark = "ok, late before the fault too"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%.4f\t%.2f s\t%s\t%s\t%s\n", mark, r.Fault, r.Regions, r.Enforcement+" "+r.Plan,
			r.Refused, r.Asked, r.Unanswered, r.Gain, r.Normal.Seconds(), milliseconds(r.Before), milliseconds(r.First), milliseconds(r.Later))
	}
	t.Flush()
	return ok
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// The lines of a page between which writePage puts the table.
const beginMark, endMark = "<!-- the table begins -->\n", "<!-- the table ends -->\n"

// writePage puts the matrix into a page.
func writePage(page string, results []OutageResult) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !found || !ends {
		return fmt.Errorf("%s has no line %q, or no %q after it", page, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(page, []byte(before+beginMark+markdown(results)+endMark+after), 0o644)
}

// markdown returns the matrix as a table in Markdown, with a row for each fault and algorithm.
func markdown(results []OutageResult) string {
	var b strings.Builder
	b.WriteString("| fault | algorithm | strict | elastic | p99 before |\n|---|---|---|---|---|\n")
	for i := 0; i+1 < len(results); i += 2 {
		strict, elastic := &results[i], &results[i+1]
		before := milliseconds(max(strict.Before, elastic.Before))
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", strict.Fault, strict.Plan, strict.Cell(), elastic.Cell(), before)
	}
	return b.String()
}
