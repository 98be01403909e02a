//go:build amd64

package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"aliquot/internal/pinned"
	"aliquot/limit"
)

// TestPinnedHashes: the worlds of a few seeds and options are, event by event, the worlds that they were. Other
// processors compute other last digits of logarithms, which make other worlds.
func TestPinnedHashes(t *testing.T) {
	bursts, err := Options{Limit: of(300, 100), Elastic: true}.
		Force("store flushed", "second daemon")
	if err != nil {
		t.Fatal(err)
	}
	windows := []limit.Algorithm{limit.FixedWindow, limit.SlidingLog, limit.SlidingCounter}
	var out strings.Builder
	fmt.Fprintf(&out, "%-12s %4s %8s %9s %9s %7s  %s\n", "options", "seed", "events", "decisions", "admitted", "faults", "hash")
	for _, set := range []struct {
		name string
		opts Options
		last uint64
	}{
		{"drawn", Options{}, 4},
		{"five regions", Options{Regions: 5, Keys: 4}, 2},
		{"no chunks", Options{Local: LocalNowhere}, 2},
		{"all chunks", Options{Local: LocalEverywhere}, 2},
		{"windows", Options{Algorithms: windows}, 2},
		{"leaky", Options{Algorithms: []limit.Algorithm{limit.LeakyBucket}}, 2},
		{"elastic", bursts, 2},
		{"calm", Options{Calm: true}, 1},
	} {
		for seed := uint64(1); seed <= set.last; seed++ {
			r := (&Job{Seed: seed, Hours: worldSpan.Hours(), Options: set.opts}).Run(context.Background())
			fmt.Fprintf(&out, "%-12s %4d %8d %9d %9d %7d  %016x\n", set.name, seed, r.Events, r.Decisions, r.Admitted, r.Faults, r.Hash)
		}
	}
	pinned.Compare(t, "hashes.txt", out.String())
}
