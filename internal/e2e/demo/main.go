// Command demo shows in the terminal, on real processes, what a greedy client gets while a leader is
// killed, a Redis flushed and a region cut off. It exits with 1 if that was more than the limit. Run
// it at the top of the module: make demo.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"aliquot/internal/e2e"
)

func main() {
	d := e2e.Demo{Out: os.Stdout}
	flag.DurationVar(&d.Part, "part", 8*time.Second, "how long each of the six parts lasts")
	bin := flag.String("bin", "", "folder of the programs; built if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ok, err := run(ctx, d, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, d e2e.Demo, bin string) (ok bool, err error) {
	if err := d.Valid(); err != nil {
		return false, err
	}
	return e2e.InFolder(ctx, "demo", bin, func(bin, dir string) (bool, error) { return d.Run(ctx, bin, dir) })
}
