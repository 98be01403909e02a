package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	if err := Build(ctx, "../..", dir); err != nil {
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

// stalledFor is a pause of this machine after which times, and how much was had, say
// little of the daemons.
const stalledFor = 500 * time.Millisecond

// kept runs a scenario in its short form; a second time if the machine stood still in the
// first one, and what did not hold is what that spoils.
func kept(t *testing.T, lab *Lab, run func(context.Context, *Lab, Scale) ([]Result, error)) {
	t.Helper()
	once := func() []Result {
		results, err := run(t.Context(), lab, Short())
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	before, err := lab.broken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := meterGaps()
	results := once()
	if gap := stop(); gap > stalledFor && spoilt(results) {
		t.Logf("told again, for this machine stood still for %v: %+v", gap, results)
		results = once()
	}
	// Coordinators that were killed count from 0 again.
	if after, err := lab.broken(t.Context()); err != nil || after > before {
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

// spoilt: something did not hold, but nothing that must always.
func spoilt(results []Result) bool {
	failed := func(r Result) bool { return !r.OK }
	return slices.ContainsFunc(results, failed) &&
		!slices.ContainsFunc(results, func(r Result) bool { return failed(r) && !r.Spoilable })
}

// meterGaps looks at the clock all the time; stop returns for how long it could not.
func meterGaps() (stop func() (largest time.Duration)) {
	end, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		largest, last := time.Duration(0), time.Now()
		for over := false; !over; {
			select {
			case <-tick.C:
			case <-end:
				over = true
			}
			largest, last = max(largest, time.Since(last)), time.Now()
		}
		result <- largest
	}()
	return func() time.Duration {
		close(end)
		return <-result
	}
}

// TestASpoiltScenarioIsOneWhosePromisesOfSafetyHeld: no pause excuses a gain.
func TestASpoiltScenarioIsOneWhosePromisesOfSafetyHeld(t *testing.T) {
	for _, c := range []struct {
		results []Result
		spoilt  bool
	}{
		{[]Result{atMost("gain", 1, 1), soon("seconds", 1, 5)}, false},
		{[]Result{atMost("gain", 1, 1), soon("seconds", 7, 5)}, true},
		{[]Result{atMost("gain", 1, 1), atLeast("utilisation", .1, .9)}, true},
		{[]Result{atMost("gain", 1.01, 1), soon("seconds", 7, 5)}, false},
		{[]Result{none("over", 1, "")}, false},
	} {
		if got := spoilt(c.results); got != c.spoilt {
			t.Errorf("%+v: %v", c.results, got)
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
