// Command run lives through hours of virtual time under random faults and tells what
// it found. The same seed and hours are the same run, on however many cores. On an
// interrupt it tells what it has found so far.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/compare"
	"aliquot/internal/sim/faults"
)

const (
	// progressEvery is how often, in real time, the run says how far it is.
	progressEvery = 10 * time.Second
	// shortened is how many violations are looked into for the least trouble that
	// leads to them.
	shortened = 3
)

const usage = `usage: run [-seed N] [-hours H] [-workers N] [-faults LIST] [-table=false] [-output text|json]
Lives through H virtual hours, in worlds of ten minutes with the seeds from N on.
With -faults it lives through the one world of the seed, with this trouble alone;
a violation tells the list. Ends with exit status 1 if a promise was broken.
Then it compares limiters under the same workloads; docs/explanation/comparison.md says how.
`

// gcPercent: worlds are small and make much garbage, so collecting it less often
// costs some hundred megabytes and saves a tenth of the time.
const gcPercent = 1600

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage); flags.PrintDefaults() }
	seed := flags.Uint64("seed", 1, "first seed; every world takes the next one")
	hours := flags.Float64("hours", 10, "virtual hours")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "worlds at a time")
	only := flags.String("faults", "", "live through one world, with this trouble alone: numbers of faults and names of steady trouble, or none")
	table := flags.Bool("table", true, "compare limiters, unless it is one world or the run is interrupted")
	output := flags.String("output", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if !(*hours > 0) || *workers < 1 || flags.NArg() > 0 || *output != "text" && *output != "json" {
		flags.Usage()
		return 2
	}
	job := sim.Job{Seed: *seed, Hours: *hours, Workers: *workers}
	if *only != "" {
		selection, err := faults.ParseSelection(*only)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		job.Options.Only = selection
		job.Hours = time.Minute.Hours() // one world
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	total := lifeOf(ctx, job)
	if job.Options.Only == nil {
		shorten(ctx, &total)
	}
	var limiters *compare.Table
	if *table && job.Options.Only == nil && ctx.Err() == nil {
		measured, err := compare.Measure(*seed, *workers)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			total.Violated++
		}
		limiters = &measured
	}
	r := reportOf(total, job.Worlds())
	r.Limiters = limiters
	if *output == "json" {
		r.writeJSON(os.Stdout)
	} else {
		r.writeText(os.Stdout)
	}
	if total.Violated > 0 {
		return 1
	}
	return 0
}

// lifeOf runs the job and says how far it is.
func lifeOf(ctx context.Context, job sim.Job) sim.Result {
	began, said, seen := time.Now(), time.Now(), 0
	job.Progress = func(r sim.Result) {
		for ; seen < len(r.Violations); seen++ {
			fmt.Fprintf(os.Stderr, "seed %d: %s\n", r.Violations[seen].Seed, r.Violations[seen].What)
		}
		if time.Since(said) < progressEvery {
			return
		}
		said = time.Now()
		fmt.Fprintf(os.Stderr, "%v: %.1f of %.1f virtual hours, %d faults, violations so far: %d\n",
			time.Since(began).Round(time.Second), r.Virtual.Hours(), job.Hours, r.Faults, r.Violated)
	}
	return job.Run(ctx)
}

// shorten replaces the first violations by what the least trouble leads to.
func shorten(ctx context.Context, r *sim.Result) {
	for i := range r.Violations[:min(len(r.Violations), shortened)] {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(os.Stderr, "seed %d: looking for the least trouble that does it\n", r.Violations[i].Seed)
		if v := sim.Shorten(r.Violations[i].Seed, sim.Options{}); v != nil {
			r.Violations[i] = v
		}
	}
}
