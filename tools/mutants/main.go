package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const folders = "regional,coordinator,cluster,lua,budget,limit,internal/recall,internal/entitlement,internal/prefetch"

type options struct {
	root, folders, only, skip, cache string
	n                                int
	seed                             uint64
	slow                             time.Duration
	list, json, all                  bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "root of the module")
	flag.IntVar(&o.n, "n", 60, "how many changes that compile to try")
	flag.Uint64Var(&o.seed, "seed", 1, "what they are drawn by")
	flag.StringVar(&o.folders, "folders", folders, "where the changes are made, comma separated; of each in turn")
	flag.StringVar(&o.only, "only", "", "try the changes whose description contains this, and no others")
	flag.StringVar(&o.skip, "skip", "", "packages whose tests do not run for changes of others, comma separated")
	flag.StringVar(&o.cache, "cache", filepath.Join(os.TempDir(), "aliquot-mutants"), "folder for binaries and for how long tests take")
	flag.DurationVar(&o.slow, "timeout", 5*time.Minute, "for one package's tests; a test that hangs counts as caught")
	flag.BoolVar(&o.list, "list", false, "print the changes and try none")
	flag.BoolVar(&o.all, "all", false, "change every file of the folders, not only those that guard the promise")
	output := flag.String("output", "table", "table or json")
	flag.Parse()
	o.json = *output == "json"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	all, err := drawn(root, strings.Split(o.folders, ","), o.seed, o.all)
	if err != nil {
		return err
	}
	b, err := newBench(root, o)
	if err != nil {
		return err
	}
	var out []verdict
	tried := 0
	for _, s := range all {
		if tried == o.n || ctx.Err() != nil {
			break
		}
		if o.only != "" && !strings.Contains(s.String(), o.only) {
			continue
		}
		if o.list {
			fmt.Println(s)
			tried++
			continue
		}
		v, err := b.try(ctx, s)
		if ctx.Err() != nil {
			break
		} else if err != nil {
			return err
		}
		if v.Outcome == "does not compile" {
			continue
		}
		tried++
		out = append(out, v)
		fmt.Fprintf(os.Stderr, "%d of %d: %s %s (%.0f s) %s\n", tried, o.n, v.Outcome, s, v.Seconds, v.Test)
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(out)
	}
	table(out)
	return ctx.Err()
}

func table(out []verdict) {
	caught := 0
	fmt.Println("| change | outcome | by | seconds |\n|---|---|---|--:|")
	for _, v := range out {
		if v.Outcome == "caught" {
			caught++
		}
		fmt.Printf("| `%s` | %s | %s | %.0f |\n", strings.ReplaceAll(v.site.String(), "|", "\\|"), v.Outcome, v.Test, v.Seconds)
	}
	fmt.Printf("\n%d of %d caught\n", caught, len(out))
}
