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

// clustersAtOnce is how many clusters run the scenarios of TestPromises. A scenario mostly waits for its clients and its
// faults: two clusters leave about half of two cores idle, and three do not on slow ones.
const clustersAtOnce = 2

// startCluster starts a cluster, which ends with the test. It returns when all regions have a lease.
func startCluster(t *testing.T) (*e2e.Cluster, error) {
	t.Helper()
	c, err := e2e.Start(t.Context(), bin, t.TempDir(), e2e.Setup{})
	if c != nil {
		t.Cleanup(func() { terminate(t, c) })
	}
	return c, err
}

// TestPromises: each scenario keeps its promises. The clusters run the scenarios in order, because the last ones change
// the regions of their cluster.
func TestPromises(t *testing.T) {
	next := make(chan promise.Scenario, len(scenarios()))
	for _, s := range scenarios() {
		if !s.Long && !s.Busy {
			next <- s
		}
	}
	close(next)
	var clusters sync.WaitGroup
	for range clustersAtOnce {
		clusters.Go(func() {
			c, err := startCluster(t)
			if err != nil {
				t.Error(err)
				return
			}
			for s := range next {
				t.Run(s.Name, func(t *testing.T) { runShort(t, c, s.Run) })
			}
		})
	}
	clusters.Wait()
}

// TestPromisesWhileBusy: each scenario that uses the whole processor keeps its promises. `make test` runs nothing beside
// it.
func TestPromisesWhileBusy(t *testing.T) {
	c, err := startCluster(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if !s.Long && s.Busy {
			t.Run(s.Name, func(t *testing.T) { runShort(t, c, s.Run) })
		}
	}
}

// terminate sends SIGTERM to all processes of a cluster. Each must end by itself, and without an error.
func terminate(t *testing.T, c *e2e.Cluster) {
	defer c.Stop()
	for _, p := range c.Processes() {
		if p.Running() {
			if err := p.Terminate(); err != nil {
				t.Errorf("%v\n%s", err, p.Tail())
			}
		}
	}
}

// runShort runs a scenario in its short form. The test fails for each promise that does not hold.
func runShort(t *testing.T, cluster *e2e.Cluster, run func(context.Context, *e2e.Cluster, promise.Scale) ([]promise.Result, error)) {
	t.Helper()
	before, err := cluster.Broken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := run(t.Context(), cluster, promise.Short())
	if err != nil {
		t.Fatal(err)
	}
	// A coordinator that was killed counts from 0 again.
	if after, err := cluster.Broken(t.Context()); err != nil || after > before {
		t.Errorf("the coordinators saw %v promises broken before, and %v after (%v)", before, after, err)
		for _, c := range cluster.Coordinators {
			t.Log(c.Lines("the promise of a rule was broken"))
		}
	}
	for _, r := range results {
		if !r.OK {
			t.Errorf("%s: %s, want %s", r.Promise, r.Got, r.Want)
		} else {
			t.Logf("%s: %s (want %s)", r.Promise, r.Got, r.Want)
		}
	}
}

// TestWindowsInMemory: the scenario of windows keeps its promises with stores in the daemons' memory, too.
func TestWindowsInMemory(t *testing.T) {
	t.Parallel()
	cluster, err := e2e.Start(t.Context(), bin, t.TempDir(), e2e.Setup{InMemory: true})
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	runShort(t, cluster, limits.Windows)
}
