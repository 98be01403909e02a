package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"aliquot/internal/bench/load"
)

// goal is one or more rows of the table, and how to measure them.
type goal struct {
	name    string
	measure func(*bench, context.Context) ([]row, error)
}

// goals are all there are, those with a peer first.
var goals = []goal{
	{"rls-1", func(b *bench, ctx context.Context) ([]row, error) { return b.rls(ctx, 1) }},
	{"rls-10", func(b *bench, ctx context.Context) ([]row, error) { return b.rls(ctx, 10) }},
	{"batch", (*bench).batched},
	{"held", (*bench).held},
	{"transports", (*bench).transports},
	{"cold", (*bench).cold},
	{"calls", (*bench).calls},
	{"hot-key", (*bench).hotKey},
	{"redis-bytes", (*bench).redisBytes},
	{"growth", (*bench).growth},
	{"memory", (*bench).memoryStore},
	{"leader", (*bench).leader},
	{"change", (*bench).change},
	{"units", (*bench).units},
}

// bench is what the goals share.
type bench struct {
	*testbed
	keys, pairs   int
	slice, warmup time.Duration
}

func main() {
	var (
		only  = flag.String("only", "", "regular expression of the goals to measure, by name")
		pairs = flag.Int("pairs", 5, "how often each of what is compared is measured")
		slice = flag.Duration("slice", 2*time.Second, "how long each time")
		peer  = flag.String("peer", "", "the program of envoyproxy/ratelimit; empty: it is built")
		root  = flag.String("root", "..", "folder of Aliquot's sources")
		keys  = flag.Int("keys", load.DefaultConfig().Keys, "how many keys there are, where a goal does not say")
		list  = flag.Bool("list", false, "print the goals' names")
	)
	flag.Parse()
	if *list {
		for _, g := range goals {
			fmt.Println(g.name)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *root, *peer, bench{keys: *keys, pairs: *pairs, slice: *slice, warmup: *slice / 4}); err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, root, peer string, b bench) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if b.testbed, err = newTestbed(ctx, root, peer); err != nil {
		return err
	}
	defer b.testbed.stop()
	fmt.Print(head)
	failed := 0
	for _, g := range goals {
		if !wanted.MatchString(g.name) {
			continue
		}
		began := time.Now()
		rows, err := g.measure(&b, ctx)
		for _, r := range rows {
			fmt.Println(r.markdown(g.name))
		}
		if err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "%s: %v\n", g.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s took %v\n", g.name, time.Since(began).Round(time.Second))
		b.testbed.stopServers()
	}
	if failed > 0 {
		return fmt.Errorf("%d goals could not be measured", failed)
	}
	return nil
}

// head of the table; a name is what -only takes.
const head = "| name | what | measured | against | ratio | goal | |\n|---|---|---|---|---|---|---|\n"

// row is one line of the table.
type row struct {
	what, measured, against, ratio, goal string
	met                                  bool
}

func (r row) markdown(name string) string {
	verdict := "**missed**"
	if r.met {
		verdict = "met"
	}
	if r.goal == "" { // nothing was promised
		verdict = ""
	}
	return "| " + strings.Join([]string{name, r.what, r.measured, r.against, r.ratio, r.goal, verdict}, " | ") + " |"
}
