package main

import (
	"flag"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"aliquot/internal/sim"
	"aliquot/limit"
)

// worlds are flags about worlds of the simulator.
type worlds struct {
	seed                     *uint64
	most, regions, keys, rho *int
	faults, algorithms       *string
	just, chunks             *bool
	lease                    *time.Duration
	burst, rate              *int64
}

func declareWorlds() worlds {
	return worlds{
		seed:    flag.Uint64("seed", 1, "first seed"),
		most:    flag.Int("worlds", 1_000_000, "at most so many worlds"),
		regions: flag.Int("regions", 0, "regions; 0, as for all that follows: as the seed draws"),
		keys:    flag.Int("keys", 0, "keys"),
		rho:     flag.Int("rho", 0, "how far clocks drift, in millionths"),
		faults:  flag.String("faults", "", "faults that every world has, with commas between"),
		just:    flag.Bool("just", false, "and no others"),
		chunks:  flag.Bool("chunks", false, "daemons take tokens of every key in advance"),
		lease:   flag.Duration("lease", 0, "length of a lease"),
		burst:   flag.Int64("burst", 0, "capacity of every key's limit, strict"),
		rate:    flag.Int64("rate", 0, "its rate a second"),

		algorithms: flag.String("algorithms", "", "what limits are drawn from, with commas between"),
	}
}

func (x *worlds) options() (sim.Options, error) {
	opts := sim.Options{
		Regions: *x.regions, Keys: *x.keys, Lease: *x.lease, RhoPPM: int32(*x.rho),
		Limit: limit.Limit{Capacity: limit.Token * limit.Tokens(*x.burst), Rate: limit.Rate{Micro: *x.rate * int64(limit.Token)}},
	}
	if *x.chunks {
		opts.Local = sim.LocalEverywhere
	}
	for _, a := range limit.Algorithms() {
		if slices.Contains(strings.Split(*x.algorithms, ","), a.String()) {
			opts.Algorithms = append(opts.Algorithms, a)
		}
	}
	switch names := strings.Split(*x.faults, ","); {
	case *x.just:
		return opts.Confine(names...)
	case *x.faults != "":
		return opts.Force(names...)
	}
	return opts, nil
}

// gcPercent: worlds are small and make much garbage. What the checker keeps is large, and
// is collected as usual.
const gcPercent = 1600

// live lives through worlds until one breaks a promise.
func (x *worlds) live(atMost time.Duration) (found, error) {
	debug.SetGCPercent(gcPercent)
	var f found
	opts, err := x.options()
	if err != nil {
		return f, err
	}
	for f.Worlds < *x.most && worked() < atMost {
		f.Seed = *x.seed + uint64(f.Worlds)
		f.Worlds++
		if v := sim.One(f.Seed, opts); v != nil {
			f.What, f.At = v.What, v.At.Milliseconds()
			break
		}
	}
	return f, nil
}
