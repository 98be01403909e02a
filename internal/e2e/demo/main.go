// Command demo shows in the terminal, on real processes, what a greedy client gets while a leader is
// killed, a Redis flushed and a region cut off. It exits with 1 if that was more than the limit. Run
// it at the top of the module: make demo.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"aliquot/internal/e2e"
)

func main() {
	d := Demo{Out: os.Stdout}
	flag.DurationVar(&d.Part, "part", 8*time.Second, "how long each of the six parts lasts")
	e2e.Main("demo", func() error { return d.Valid() }, func(ctx context.Context, bin, dir string) (bool, error) {
		return d.Run(ctx, bin, dir)
	})
}
