// Command hotkeys makes thousands of keys hot in five regions of real processes, kills the
// leader again and again, and tells how long it takes until every region has its lease again.
// It exits with 1 if a promise did not hold. Run it at the top of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
)

func main() {
	h := HotKeys{Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flag.IntVar(&h.Keys, "keys", 20_000, "how many keys are hot")
	flag.IntVar(&h.Kills, "kills", 3, "how many times the leader is killed")
	flag.DurationVar(&h.Within, "within", 5*time.Second, "how long a region may be without a new lease")
	flag.BoolVar(&h.Founded, "founded", false, "found the cluster with the keys hot, instead of heating them by checks")
	e2e.Main("hotkeys", nil, func(ctx context.Context, bin, dir string) (bool, error) {
		results, err := h.Run(ctx, bin, dir)
		return promise.PrintResults(os.Stdout, results), err
	})
}
