// Command run searches the scenarios of package check and tells what it found.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"aliquot/internal/sim/check"
	"aliquot/internal/sim/check/search"
)

func main() {
	scenario := flag.String("scenario", "", "only this one")
	states := flag.Int("states", 1_000_000, "distinct states of a scenario at the most; 0: no bound")
	depth := flag.Int("depth", 0, "events from the root at the most; 0: no bound")
	limit := flag.Duration("time", 0, "how long a scenario is searched at the most; 0: no bound")
	workers := flag.Int("workers", runtime.NumCPU(), "searchers at the same time")
	replay := flag.String("replay", "", "go along this path of -scenario, as a violation prints it")
	list := flag.Bool("list", false, "list the scenarios")
	output := flag.String("output", "table", "table or json")
	flag.Parse()
	if flag.NArg() > 0 || *replay != "" && *scenario == "" || *output != "table" && *output != "json" {
		flag.Usage()
		os.Exit(2)
	}
	os.Exit(run(*scenario, *replay, *list, *output == "json", search.Bound{States: *states, Depth: *depth, Time: *limit, Workers: *workers}))
}

func run(scenario, replay string, list, asJSON bool, bound search.Bound) int {
	var results []check.Result
	found := false
	for _, sc := range check.Scenarios() {
		switch {
		case scenario != "" && sc.Name != scenario:
			continue
		case list:
			fmt.Printf("%-30s %s\n", sc.Name, sc.About)
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
		if !found && !asJSON {
			fmt.Println(check.Header)
		}
		found = true
		r := sc.Search(bound)
		results = append(results, r)
		if !asJSON {
			fmt.Println(&r)
		}
		if r.Violation != nil {
			break
		}
	}
	switch {
	case !found:
		fmt.Fprintf(os.Stderr, "there is no scenario %q\n", scenario)
		return 2
	case list:
		return 0
	}
	return report(results, asJSON)
}

// report says what the searches came to, and returns the exit code.
func report(results []check.Result, asJSON bool) int {
	var took time.Duration
	states, exhausted, broken := 0, 0, 0
	for i := range results {
		r := &results[i]
		states, took = states+r.States, took+r.Took
		switch r.End {
		case search.Exhausted:
			exhausted++
		case search.Broken:
			broken++
			fmt.Fprintln(os.Stderr, r.Violation)
		}
	}
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(results); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	} else {
		fmt.Printf("%d states in %.1f s; %d of %d scenarios exhausted, violations: %d\n", states, took.Seconds(), exhausted, len(results), broken)
	}
	return min(broken, 1)
}
