package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aliquot-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := Build(ctx, "..", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	return m.Run()
}

func TestPromises(t *testing.T) {
	lab, err := Start(t.Context(), bin, t.TempDir())
	if lab != nil {
		defer lab.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Scenarios() {
		if s.Long {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			kept(t, lab, s.Run)
		})
	}
	for _, p := range lab.processes() {
		if p.Running() {
			if err := p.Terminate(); err != nil {
				t.Errorf("%v\n%s", err, p.Tail())
			}
		}
	}
}

// kept runs a scenario in its short form.
func kept(t *testing.T, lab *Lab, run func(context.Context, *Lab, Scale) ([]Result, error)) {
	t.Helper()
	results, err := run(t.Context(), lab, Short())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.OK {
			t.Errorf("%s: %s, want %s", r.Promise, r.Got, r.Want)
		} else {
			t.Logf("%s: %s (want %s)", r.Promise, r.Got, r.Want)
		}
	}
}

// TestWindowsInMemory: the same with stores inside the daemons.
func TestWindowsInMemory(t *testing.T) {
	lab, err := StartInMemory(t.Context(), bin, t.TempDir())
	if lab != nil {
		defer lab.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	kept(t, lab, windows)
}
