package main

import (
	"context"
	"os"
	"sync"
	"testing"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/limits"
	"aliquot/internal/e2e/promise"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(e2e.RunTests(m, "../../..", &bin)) }

// sideBySide is how many clusters run the scenarios of TestPromises. A scenario lasts as long as its clients ask and its
// faults last, and mostly waits: two clusters leave more than half of two cores idle.
const sideBySide = 3

// running starts a cluster, which ends with the test, and returns it with all regions leased.
func running(t *testing.T) (*e2e.Cluster, error) {
	t.Helper()
	c, err := e2e.Start(t.Context(), bin, t.TempDir(), e2e.Setup{})
	if c != nil {
		t.Cleanup(func() { end(t, c) })
	}
	return c, err
}

// TestPromises: each scenario keeps its promises. Each cluster takes the next one, in their order: the
// last ones change its regions.
func TestPromises(t *testing.T) {
	next := make(chan promise.Scenario, len(scenarios()))
	for _, s := range scenarios() {
		if !s.Long && !s.Busy {
			next <- s
		}
	}
	close(next)
	var working sync.WaitGroup
	for range sideBySide {
		working.Go(func() {
			c, err := running(t)
			if err != nil {
				t.Error(err)
				return
			}
			for s := range next {
				t.Run(s.Name, func(t *testing.T) { kept(t, c, s.Run) })
			}
		})
	}
	working.Wait()
}

// TestPromisesWhileBusy: each scenario that takes all the processor time there is keeps its promises. `make test` runs
// nothing beside it.
func TestPromisesWhileBusy(t *testing.T) {
	c, err := running(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if !s.Long && s.Busy {
			t.Run(s.Name, func(t *testing.T) { kept(t, c, s.Run) })
		}
	}
}

// end ends all processes of a cluster, which must end by themselves when they are told to.
func end(t *testing.T, l *e2e.Cluster) {
	defer l.Stop()
	for _, p := range l.Processes() {
		if p.Running() {
			if err := p.Terminate(); err != nil {
				t.Errorf("%v\n%s", err, p.Tail())
			}
		}
	}
}

// kept runs a scenario in its short form.
func kept(t *testing.T, cluster *e2e.Cluster, run func(context.Context, *e2e.Cluster, promise.Scale) ([]promise.Result, error)) {
	t.Helper()
	before, err := cluster.Broken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := run(t.Context(), cluster, promise.Short())
	if err != nil {
		t.Fatal(err)
	}
	// Coordinators that were killed count from 0 again.
	if after, err := cluster.Broken(t.Context()); err != nil || after > before {
		t.Errorf("the coordinators saw %v promises broken before, and %v after (%v)", before, after, err)
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
	t.Parallel()
	cluster, err := e2e.Start(t.Context(), bin, t.TempDir(), e2e.Setup{InMemory: true})
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	kept(t, cluster, limits.Windows)
}
