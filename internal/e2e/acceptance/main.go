// Command acceptance runs every scenario at full length and prints a table of the
// promises. It exits with 1 if one did not hold. Run it at the top of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
)

// gcPercent is the GOGC of this process: it collects garbage after it has allocated ten times what is live.
const gcPercent = 1000

func main() {
	only := flag.String("only", "", "run only scenarios whose name contains this")
	short := flag.Bool("short", false, "run the short form")
	// The daemons are measured, so this command rarely takes processor time for its own garbage.
	debug.SetGCPercent(gcPercent)
	e2e.Main("acceptance", nil, func(ctx context.Context, bin, dir string) (bool, error) {
		return run(ctx, bin, dir, *only, *short)
	})
}

func run(ctx context.Context, bin, dir, only string, short bool) (ok bool, err error) {
	cluster, err := e2e.Start(ctx, bin, dir, e2e.Setup{})
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		return false, err
	}
	scale := promise.Full()
	if short {
		scale = promise.Short()
	}
	ok = true
	for _, s := range scenarios() {
		if !strings.Contains(s.Name, only) || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		results, err := s.Run(ctx, cluster, scale)
		fmt.Printf("\n%s (%v)\n", s.Name, time.Since(began).Round(time.Second))
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.Name, err)
		}
		ok = promise.PrintResults(os.Stdout, results) && ok
	}
	return ok, ctx.Err()
}
