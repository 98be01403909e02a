// Command acceptance runs every scenario at full length and prints a table of the
// promises. It exits with 1 if one did not hold. Run it at the top of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"aliquot/internal/e2e"
)

// collectAt lets this process's heap grow to that many per cent more than what lives.
const collectAt = 1000

func main() {
	only := flag.String("only", "", "run only scenarios whose name contains this")
	short := flag.Bool("short", false, "run the short form")
	flag.Parse()
	// What is measured is the installation, and not the collector of what measures it.
	debug.SetGCPercent(collectAt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ok, err := run(ctx, *only, *short)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, short bool) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "aliquot-acceptance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := e2e.Build(ctx, ".", dir); err != nil {
		return false, err
	}
	lab, err := e2e.Start(ctx, dir, dir)
	if lab != nil {
		defer lab.Stop()
	}
	if err != nil {
		return false, err
	}
	scale := e2e.Full()
	if short {
		scale = e2e.Short()
	}
	ok = true
	for _, s := range e2e.Scenarios() {
		if !strings.Contains(s.Name, only) || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		results, err := s.Run(ctx, lab, scale)
		fmt.Printf("\n%s (%v)\n", s.Name, time.Since(began).Round(time.Second))
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.Name, err)
		}
		ok = table(os.Stdout, results) && ok
	}
	return ok, ctx.Err()
}

func table(w io.Writer, results []e2e.Result) (ok bool) {
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
