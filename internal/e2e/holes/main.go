// Command holes opens known holes of the promise one by one on real processes, with programs whose repairs are taken
// out. It prints the violations that the coordinators count: some while the hole is open, and none while it is closed.
// It exits with 1 otherwise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/faults"
)

func main() {
	only := flag.String("only", "", "names of holes, comma separated; empty: all")
	flag.Parse()
	e2e.Exit(func(ctx context.Context) (bool, error) {
		return e2e.InFolder(ctx, "holes", "-", func(ctx context.Context, _, dir string) (bool, error) { return observeAll(ctx, dir, *only) })
	})
}

// observeAll prints a row for each hole whose name is in only, and reports whether all showed what they should.
func observeAll(ctx context.Context, dir, only string) (ok bool, err error) {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return false, err
	}
	if err := faults.BuildWithHoles(ctx, ".", bin); err != nil {
		return false, err
	}
	ok = true
	fmt.Println("| hole | what it breaks | open: gain, violations | closed: gain, violations |\n|---|---|---|---|")
	for _, h := range faults.Holes() {
		if only != "" && !strings.Contains(","+only+",", ","+h.Name+",") {
			continue
		}
		var seen [2]faults.Observation
		for i, open := range []bool{true, false} {
			cluster, err := os.MkdirTemp(dir, h.Name)
			if err != nil {
				return false, err
			}
			if seen[i], err = h.Observe(ctx, bin, cluster, open); err != nil {
				return false, fmt.Errorf("%s, open %t: %w", h.Name, open, err)
			}
		}
		fmt.Printf("| %s | %s | %.3f, %v | %.3f, %v |\n", h.Name, h.Breaks, seen[0].Gain, seen[0].Violations, seen[1].Gain, seen[1].Violations)
		ok = ok && seen[0].Violations > 0 && seen[1].Violations == 0
	}
	return ok, nil
}
