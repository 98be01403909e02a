// Command hotkeys makes thousands of keys hot in five regions of real processes, kills the
// leader again and again, and tells how long it takes until every region has its lease again.
// It exits with 1 if a promise did not hold. Run it at the top of the module.
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
	h := e2e.HotKeys{Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flag.IntVar(&h.Keys, "keys", 20_000, "how many keys are hot")
	flag.IntVar(&h.Kills, "kills", 3, "how many times the leader is killed")
	flag.DurationVar(&h.Within, "within", 5*time.Second, "how long a region may be without a new lease")
	bin := flag.String("bin", "", "folder of the programs; built if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ok, err := run(ctx, h, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, h e2e.HotKeys, bin string) (ok bool, err error) {
	return e2e.InFolder(ctx, "hotkeys", bin, func(bin, dir string) (ok bool, err error) {
		results, err := h.Run(ctx, bin, dir)
		ok = true
		for _, r := range results {
			ok = ok && r.OK
			fmt.Printf("%v\t%s\t%s\t%s\n", r.OK, r.Promise, r.Got, r.Want)
		}
		return ok, err
	})
}
