// Command run searches the scenarios of package check and tells what it found.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"aliquot/sim/check"
)

func main() {
	scenario := flag.String("scenario", "", "only this one")
	states := flag.Int("states", 1_000_000, "distinct states of a scenario at the most; 0: no bound")
	depth := flag.Int("depth", 0, "events from the root at the most; 0: no bound")
	limit := flag.Duration("time", 0, "how long a scenario is searched at the most; 0: no bound")
	workers := flag.Int("workers", runtime.NumCPU(), "searchers at the same time")
	replay := flag.String("replay", "", "go along this path of -scenario, as a violation prints it")
	list := flag.Bool("list", false, "list the scenarios")
	flag.Parse()
	if flag.NArg() > 0 || *replay != "" && *scenario == "" {
		flag.Usage()
		os.Exit(2)
	}
	os.Exit(run(*scenario, *replay, *list, check.Bound{States: *states, Depth: *depth, Time: *limit, Workers: *workers}))
}

func run(scenario, replay string, list bool, bound check.Bound) int {
	found, states, began := false, 0, time.Now()
	for _, sc := range check.Scenarios() {
		switch {
		case scenario != "" && sc.Name != scenario:
			continue
		case list:
			fmt.Printf("%-22s %s\n", sc.Name, sc.About)
			found = true
			continue
		case replay != "":
			v, err := sc.Replay(replay)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 2
			}
			fmt.Println(v)
			return 0
		}
		found = true
		r := sc.Search(bound)
		fmt.Println(&r)
		states += r.States
		if r.Violation != nil {
			fmt.Println(r.Violation)
			return 1
		}
	}
	if !found {
		fmt.Fprintf(os.Stderr, "there is no scenario %q\n", scenario)
		return 2
	}
	if !list {
		fmt.Printf("%d states in %.1f s, violations: 0\n", states, time.Since(began).Seconds())
	}
	return 0
}
