// Command run prints the table of limiters and workloads; docs/explanation/comparison.md explains it.
// The same seed is the same table.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"

	"aliquot/internal/sim/compare"
)

func main() {
	os.Exit(run())
}

func run() int {
	seed := flag.Uint64("seed", 1, "of the worlds and of their clients")
	output := flag.String("output", "table", "table or json")
	flag.Parse()
	if flag.NArg() > 0 || *output != "table" && *output != "json" {
		flag.Usage()
		return 2
	}
	t, err := compare.Measure(*seed, runtime.GOMAXPROCS(0))
	if *output == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(t); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	} else {
		t.WriteText(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
