// Command worker lives through worlds of the simulator, one after the other, until
// one breaks a promise or the time is up, and prints what it found as JSON. Package
// plants builds it from changed sources.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"aliquot/limit"
	"aliquot/sim"
)

// found is read by package plants.
type found struct {
	Seed   uint64 `json:"seed"` // of the last world
	Worlds int    `json:"worlds"`
	What   string `json:"what,omitempty"` // empty: nothing was broken
	At     int64  `json:"at_ms"`          // in the life of that world
	Worked int64  `json:"worked_ms"`      // time of a core
}

func main() {
	seed := flag.Uint64("seed", 1, "first seed")
	worlds := flag.Int("worlds", 1_000_000, "at most so many worlds")
	atMost := flag.Duration("for", time.Minute, "at most so much time of a core")
	regions := flag.Int("regions", 0, "regions; 0: as the seed draws")
	keys := flag.Int("keys", 0, "keys; 0: as the seed draws")
	faults := flag.String("faults", "", "faults that every world has, with commas between")
	just := flag.Bool("just", false, "and no others")
	lease := flag.Duration("lease", 0, "length of a lease; 0: as the seed draws")
	rho := flag.Int("rho", 0, "how far clocks drift, in millionths; 0: as the seed draws")
	burst := flag.Int64("burst", 0, "capacity of every key's limit, strict; 0: as the seed draws")
	rate := flag.Int64("rate", 0, "its rate a second")
	flag.Parse()
	opts := sim.Options{
		Regions: *regions, Keys: *keys, Lease: *lease, RhoPPM: int32(*rho),
		Limit: limit.Limit{Capacity: limit.Token * limit.Tokens(*burst), Rate: limit.Rate{Micro: *rate * int64(limit.Token)}},
	}
	var err error
	switch names := strings.Split(*faults, ","); {
	case *just:
		opts, err = opts.Confine(names...)
	case *faults != "":
		opts, err = opts.Force(names...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	f := found{Seed: *seed}
	for f.Worlds < *worlds && worked() < *atMost {
		f.Seed = *seed + uint64(f.Worlds)
		f.Worlds++
		if v := sim.One(f.Seed, opts); v != nil {
			f.What, f.At = v.What, v.At.Milliseconds()
			break
		}
	}
	f.Worked = worked().Milliseconds()
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// worked is how much time of a core this process has had: the time by the wall
// depends on what else the machine does.
func worked() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
