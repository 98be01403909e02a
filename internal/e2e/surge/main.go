// Command surge sends the requests of 2,000 riders, ten times what they are allowed, through nginx to
// a backend that collapses at 150 requests a second, with and without Aliquot, and prints what riders
// and backend got. Run it at the top of the module: make surge.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"aliquot/internal/e2e"
)

func main() {
	s := Surge{Out: os.Stderr}
	regions := flag.String("regions", "1,3", "in how many regions, 1 to 3, one run for each number")
	seconds := flag.Int("seconds", 60, "how long the riders send, with and without Aliquot")
	flag.IntVar(&s.Riders, "riders", 2000, "how many riders there are")
	flag.Float64Var(&s.Times, "times", 10, "how many times its limit each rider sends; up to 1, with Aliquot alone")
	flag.Float64Var(&s.Impatient, "impatient", 0, "part of the riders, 0 to 1, who do not wait as Retry-After says")
	flag.IntVar(&s.Busy, "busy", 0, "busy loops beside it, for each core")
	output := flag.String("output", "table", "table or json")
	var counts []int
	valid := func() (err error) {
		s.Length = time.Duration(*seconds) * time.Second
		if *output != "table" && *output != "json" {
			return fmt.Errorf("output %q; give table or json", *output)
		}
		for text := range strings.SplitSeq(*regions, ",") {
			if s.Regions, err = strconv.Atoi(text); err != nil {
				return fmt.Errorf("regions %q; give numbers, as 1 or 1,3", *regions)
			}
			if err := s.Valid(); err != nil {
				return err
			}
			counts = append(counts, s.Regions)
		}
		return nil
	}
	e2e.Main("surge", valid, func(ctx context.Context, bin, dir string) (bool, error) {
		var rows []SurgeRow
		for _, s.Regions = range counts {
			state, err := os.MkdirTemp(dir, "regions-")
			if err != nil {
				return false, err
			}
			more, err := s.Run(ctx, bin, state)
			if err != nil {
				return false, err
			}
			rows = append(rows, more...)
		}
		if *output == "json" {
			return true, e2e.PrintJSON(os.Stdout, rows)
		}
		PrintSurge(os.Stdout, rows)
		return true, nil
	})
}
