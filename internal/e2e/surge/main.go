// Command surge sends the requests of 2,000 riders, ten times what they are allowed, through nginx to
// a backend that collapses at 150 requests a second, with and without Aliquot, and prints what riders
// and backend got. Run it at the top of the module: make surge.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aliquot/internal/e2e"
)

func main() {
	s := e2e.Surge{Out: os.Stderr}
	regions := flag.String("regions", "1,3", "in how many regions, 1 to 3, one run for each number")
	seconds := flag.Int("seconds", 60, "how long the riders send, with and without Aliquot")
	flag.IntVar(&s.Riders, "riders", 2000, "how many riders there are")
	flag.Float64Var(&s.Times, "times", 10, "how many times its limit each rider sends; up to 1, with Aliquot alone")
	flag.Float64Var(&s.Impatient, "impatient", 0, "part of the riders, 0 to 1, who do not wait as Retry-After says")
	flag.IntVar(&s.Busy, "busy", 0, "busy loops beside it, for each core")
	output := flag.String("output", "table", "table or json")
	bin := flag.String("bin", "", "folder of the programs; built if empty")
	flag.Parse()
	s.Length = time.Duration(*seconds) * time.Second
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, s, *regions, *output, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s e2e.Surge, regions, output, bin string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("output %q; give table or json", output)
	}
	var rows []e2e.SurgeRow
	for text := range strings.SplitSeq(regions, ",") {
		var err error
		if s.Regions, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("regions %q; give numbers, as 1 or 1,3", regions)
		}
		if err := s.Valid(); err != nil {
			return err
		}
		_, err = e2e.InFolder(ctx, "surge", bin, func(bin, dir string) (bool, error) {
			more, err := s.Run(ctx, bin, dir)
			rows = append(rows, more...)
			return true, err
		})
		if err != nil {
			return err
		}
	}
	if output == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	}
	e2e.PrintSurge(os.Stdout, rows)
	return nil
}
