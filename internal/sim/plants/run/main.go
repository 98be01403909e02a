// Command run puts bugs into the budget protocol, one at a time, and shows where the
// simulator and the exhaustive checker catch each. It exits with 1 if one is not caught.
// It has to run at the root of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"aliquot/internal/sim/plants"
)

// flags are what is asked for.
type flags struct {
	only, output, by string
	limit            time.Duration
	jobs             int
	hunt, doc        bool
}

func main() {
	var f flags
	flag.StringVar(&f.only, "only", "", "names of plants, with commas between; empty: all")
	flag.StringVar(&f.output, "output", "text", "text or json")
	flag.StringVar(&f.by, "by", "all", "who looks: sim, check, tests or all")
	flag.BoolVar(&f.doc, "doc", false, "write the table into its page, after a hunt or without trying anything")
	flag.DurationVar(&f.limit, "for", plants.Patience, "how much time of a core one plant may take to be caught")
	flag.IntVar(&f.jobs, "jobs", 2, "plants tried at once")
	flag.BoolVar(&f.hunt, "hunt", false, "look everywhere, not where plants are known to be, and remember what catches them")
	flag.Parse()
	if flag.NArg() > 0 || f.output != "text" && f.output != "json" || !slices.Contains([]string{"sim", "check", "tests", "all"}, f.by) ||
		f.jobs < 1 || f.limit < time.Millisecond {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, f)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run tries plants and reports whether all were caught that should be.
func run(ctx context.Context, f flags) (bool, error) {
	chosen, err := choose(f.only)
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
	if f.doc && !f.hunt {
		return true, plants.WriteDoc(root, known)
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
	season := plants.Season{
		Bench: bench, Known: known, Limit: f.limit, Jobs: f.jobs,
		Sim: f.by == "sim" || f.by == "all", Check: f.by == "check" || f.by == "all", Tests: f.by == "tests" || f.by == "all",
		Hunt: f.hunt,
	}
	verdicts, ok := report(ctx, &season, chosen, f.output == "json")
	if f.hunt {
		known, err = plants.Remember(root, known, verdicts)
	}
	if err == nil && f.doc {
		err = plants.WriteDoc(root, known)
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
		ok = ok && err == nil && v.AsExpected()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		verdicts = append(verdicts, v)
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
