// Command run puts bugs into the budget protocol, one at a time, and shows where the
// simulator catches each. It exits with 1 if one is not caught.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"aliquot/sim/plants"
)

func main() {
	only := flag.String("only", "", "names of plants, with commas between; empty: all")
	output := flag.String("output", "text", "text or json")
	limit := flag.Duration("for", plants.Patience, "how long one plant may take to be caught")
	jobs := flag.Int("jobs", 2, "plants tried at once")
	hunt := flag.Bool("hunt", false, "search from the first seed on, and remember what catches a plant")
	doc := flag.String("doc", "", "page into which the table is written")
	flag.Parse()
	if flag.NArg() > 0 || *output != "text" && *output != "json" || *jobs < 1 || *limit < time.Millisecond {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, *only, *output == "json", *limit, *jobs, *hunt, *doc)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run tries plants and reports whether all were caught that should be.
func run(ctx context.Context, only string, asJSON bool, limit time.Duration, jobs int, hunt bool, doc string) (bool, error) {
	chosen, err := choose(only)
	if err != nil {
		return false, err
	}
	known, err := plants.Known()
	if err != nil {
		return false, err
	}
	root, err := os.Getwd()
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "plants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	bench, err := plants.NewBench(ctx, root, dir)
	if err != nil {
		return false, err
	}
	season := plants.Season{Bench: bench, Known: known, Limit: limit, Jobs: jobs}
	if hunt {
		season.Known = nil
	}
	verdicts, ok := report(ctx, &season, chosen, asJSON)
	if hunt {
		err = plants.Remember(root, known, verdicts)
	}
	if err == nil && doc != "" {
		err = plants.WriteDoc(doc, verdicts)
	}
	return ok, err
}

func choose(only string) ([]plants.Plant, error) {
	if only == "" {
		return plants.All(), nil
	}
	var chosen []plants.Plant
	for name := range strings.SplitSeq(only, ",") {
		p, err := plants.Named(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

// report prints every verdict as it comes.
func report(ctx context.Context, season *plants.Season, chosen []plants.Plant, asJSON bool) (verdicts []plants.Verdict, ok bool) {
	ok = true
	if !asJSON {
		fmt.Print(plants.Heading)
	}
	season.Try(ctx, chosen, func(v plants.Verdict, err error) {
		verdicts = append(verdicts, v)
		ok = ok && err == nil && v.AsExpected()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		write := v.WriteText
		if asJSON {
			write = v.WriteJSON
		}
		if err := write(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			ok = false
		}
	})
	return verdicts, ok
}
