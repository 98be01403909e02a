// Command run prints the table of limiters and workloads; docs/comparison.md explains it.
package main

import (
	"fmt"
	"os"
	"time"

	"aliquot/sim/compare"
)

func main() {
	for _, w := range compare.Workloads() {
		for _, k := range compare.Kinds() {
			began := time.Now()
			o, err := compare.Run(k, w, 1)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Printf("%-24s %-14s ratio %.4f own %.4f gain %.4f exc %6.2f util %.4f false %.5f least %.4f jain %.4f moves %.1f lat %v/%v conv %v  [%v]\n",
				w.Name, k.Name, o.Ratio, o.OwnRatio, o.Gain, o.Excess, o.Utilisation, o.FalseRejections, o.LeastServed, o.Jain, o.MovesAMinute, o.LatencyP50, o.LatencyP99, o.Converged, time.Since(began).Round(time.Millisecond))
		}
	}
}
