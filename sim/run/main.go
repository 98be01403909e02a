// Command run lives through hours of virtual time under random faults and tells what
// it found. The same seed and hours are the same run.
package main

import (
	"flag"
	"fmt"
	"os"

	"aliquot/sim"
)

func main() {
	seed := flag.Uint64("seed", 1, "first seed; every world takes the next one")
	hours := flag.Int("hours", 10, "virtual hours")
	flag.Parse()
	if *hours < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: run [-seed N] [-hours N]; at least one hour")
		os.Exit(2)
	}
	violations := 0
	var total sim.Result
	for hour := range *hours {
		r := sim.Run(*seed+uint64(total.Worlds), 1, sim.Options{})
		total.Worlds += r.Worlds
		total.Virtual += r.Virtual
		total.Events += r.Events
		total.Faults += r.Faults
		total.Admitted += r.Admitted
		for f, n := range r.Kinds {
			total.Kinds[f] += n
		}
		for _, v := range r.Violations {
			fmt.Println(v)
		}
		violations += len(r.Violations)
		fmt.Fprintf(os.Stderr, "\r%d of %d virtual hours, %d faults, %d violations ", hour+1, *hours, total.Faults, violations)
	}
	fmt.Fprintln(os.Stderr)
	fmt.Printf("%d worlds, %v of virtual time, %d events, %d faults, %d tokens admitted\n",
		total.Worlds, total.Virtual, total.Events, total.Faults, total.Admitted)
	for f, n := range total.Kinds {
		fmt.Printf("%8d %s\n", n, sim.FaultName(f))
	}
	fmt.Printf("violations: %d\n", violations)
	if violations > 0 {
		os.Exit(1)
	}
}
