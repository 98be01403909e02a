package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/e2e"
)

const (
	// stalls, of stallFor each, come once a second.
	stalls, stallFor = 10, 60 * time.Millisecond
	// burners are processes that use all CPU they get, burnFor so long.
	burners, burnFor = 10, 10 * time.Second
	// riders are far below their limits.
	riders, riderEvery = 2000, 8 * time.Second
	// soonest is the promised 99th percentile of a check in the first second of an outage, and usually that after it.
	soonest, usually = 60 * time.Millisecond, 5 * time.Millisecond
	// awayFor is how long a store is away.
	awayFor = 6 * time.Second
)

// windowed are the algorithms of the table but slots, which are given out by Reserve.
var windowed = outageAlgorithms[:len(outageAlgorithms)-1]

// outageTable are the faults that users met first.
func outageTable() []outage {
	return []outage{
		{name: "stopped or killed, seldom asked", clients: seldom, before: 3 * time.Second, after: 4 * time.Second, first: soonest, later: usually, fault: func(ctx context.Context, l *e2e.Cluster, run int) error {
			if run%2 == 0 {
				return stopStore(ctx, l, awayFor)
			}
			return killStore(ctx, l, awayFor)
		}},
		stoppedUnderLoad(150 * time.Millisecond), stoppedUnderLoad(time.Second), stoppedUnderLoad(5 * time.Second),
		{name: "still for 60 ms once a second", clients: newcomers, before: time.Second, after: 2 * time.Second, first: soonest, later: soonest, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error {
			for range stalls {
				if err := stopStore(ctx, l, stallFor); err != nil {
					return err
				}
				e2e.Pause(ctx, time.Second-stallFor)
			}
			return nil
		}},
		{name: "a load of 10", clients: crowdOfRiders, before: 3 * time.Second, after: 2 * time.Second, goal: .001, fault: burn},
		{name: "contents lost", clients: usual, before: outageWindow / 2, after: 2*outageWindow + outageWindow/2, first: soonest, later: usually, fault: func(ctx context.Context, l *e2e.Cluster, run int) error {
			if run%2 == 0 {
				return l.Flush(l.Regions[0])
			}
			return killStore(ctx, l, e2e.PollEvery)
		}},
		{name: "restarted with its daemon", clients: usual, before: outageWindow / 2, after: 2*outageWindow + outageWindow/2, empties: true, endsDaemon: true, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error {
			daemon, redis := l.Regions[0], l.Redis[0]
			return errors.Join(daemon.Terminate(), redis.Kill9(), redis.Start(), daemon.Start(), l.AwaitLeases(ctx))
		}},
		{name: "killed with its daemon", clients: usual, before: outageWindow / 2, after: 2*outageWindow + outageWindow/2, goal: 1, empties: true, endsDaemon: true, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error {
			daemon, redis := l.Regions[0], l.Redis[0]
			return errors.Join(daemon.Kill9(), redis.Kill9(), redis.Start(), daemon.Start(), l.AwaitLeases(ctx))
		}},
	}
}

func stoppedUnderLoad(d time.Duration) outage {
	return outage{name: fmt.Sprintf("stopped %v under load", d), clients: usual, before: 3 * time.Second, after: 4 * time.Second, first: soonest, later: usually,
		fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return stopStore(ctx, l, d) }}
}

// stopStore has the first region's store stand still for a while.
func stopStore(ctx context.Context, l *e2e.Cluster, d time.Duration) error {
	if err := l.Redis[0].Pause(); err != nil {
		return err
	}
	e2e.Pause(ctx, d)
	return l.Redis[0].Resume()
}

// killStore has it gone for a while, with all its contents.
func killStore(ctx context.Context, l *e2e.Cluster, d time.Duration) error {
	if err := l.Redis[0].Kill9(); err != nil {
		return err
	}
	e2e.Pause(ctx, d)
	return l.Redis[0].Start()
}

// burn has other processes use all of the machine for a while.
func burn(ctx context.Context, l *e2e.Cluster, _ int) error {
	stop, err := e2e.Busy(l.Dir, burners)
	e2e.Pause(ctx, burnFor)
	return errors.Join(err, stop())
}

// named is a key that no other run has.
func named(plan outagePlan, run, number int) string {
	return fmt.Sprintf("%s-%d-%d-%d", plan.name(), run, number, time.Now().UnixNano())
}

// seldom are clients that ask once in eight seconds each, two a second together.
func seldom(run int) (out []client) {
	all := plans(windowed...)
	for i, p := range all {
		out = append(out, client{plan: p, key: named(p, run, i), every: 5 * time.Second, from: time.Duration(i) * 500 * time.Millisecond})
	}
	return out
}

// usual are clients at half of their limit, greedy ones at three times it, and some that come again and
// again with a key that was not asked before: of each plan.
func usual(run int) (out []client) {
	for i, p := range plans(windowed...) {
		from := time.Duration(i) * 3 * time.Millisecond
		half, double := time.Second/(outageRate/2), time.Second/(2*outageRate)
		if p.counts() {
			half = 2 * outageWindow / outageCount
		}
		out = append(out, client{plan: p, key: named(p, run, 0), every: half, from: from},
			client{plan: p, key: named(p, run, 1), every: double, from: from, greedy: true})
		for n := range 100 {
			out = append(out, client{plan: p, key: named(p, run, 2+n), from: from + time.Duration(n)*300*time.Millisecond})
		}
	}
	return out
}

// counts reports whether the plan's limit counts.
func (p outagePlan) counts() bool {
	return p.algorithm != "token_bucket" && p.algorithm != "leaky_bucket"
}

// newcomers are clients that ask once, sixty a second.
func newcomers(run int) (out []client) {
	all := plans(windowed...)
	for i := range 60 * (stalls + 1) {
		p := all[i%len(all)]
		out = append(out, client{plan: p, key: named(p, run, i), from: time.Duration(i) * time.Second / 60})
	}
	return out
}

// crowdOfRiders are clients far below their limits.
func crowdOfRiders(run int) (out []client) {
	all := plans(windowed...)
	for i := range riders {
		p := all[i%len(all)]
		out = append(out, client{plan: p, key: named(p, run, i), every: riderEvery, from: riderEvery * time.Duration(i) / riders})
	}
	return out
}
