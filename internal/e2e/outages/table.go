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
	// burners is how many processes use all CPU they get, for burnFor.
	burners, burnFor = 10, 10 * time.Second
	// slowClients is how many clients are far below their limits. Each asks once in slowEvery.
	slowClients, slowEvery = 2000, 8 * time.Second
	// The promised 99th percentiles of a check in the first second of an outage, and after it.
	firstP99, laterP99 = 60 * time.Millisecond, 5 * time.Millisecond
	// awayFor is how long a store is down.
	awayFor = 6 * time.Second
)

// checked are the algorithms that Check decides: all but slots, which Reserve gives out.
var checked = outageAlgorithms[:len(outageAlgorithms)-1]

// outageTable returns the faults that users met first.
func outageTable() []outage {
	return []outage{
		{name: "stopped or killed, seldom asked", clients: seldom, before: 3 * time.Second, after: 4 * time.Second, first: firstP99, later: laterP99, fault: func(ctx context.Context, l *e2e.Cluster, run int) error {
			if run%2 == 0 {
				return stopStore(ctx, l, awayFor)
			}
			return killStore(ctx, l, awayFor)
		}},
		stoppedUnderLoad(150 * time.Millisecond), stoppedUnderLoad(time.Second), stoppedUnderLoad(5 * time.Second),
		{name: "still for 60 ms once a second", clients: newcomers, before: time.Second, after: 2 * time.Second, first: firstP99, later: firstP99, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error {
			for range stalls {
				if err := stopStore(ctx, l, stallFor); err != nil {
					return err
				}
				e2e.Pause(ctx, time.Second-stallFor)
			}
			return nil
		}},
		{name: "a load of 10", clients: crowd, before: 3 * time.Second, after: 2 * time.Second, goal: .001, fault: burn},
		{name: "contents lost", clients: usual, before: outageWindow / 2, after: 2*outageWindow + outageWindow/2, first: firstP99, later: laterP99, fault: func(ctx context.Context, l *e2e.Cluster, run int) error {
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

// stoppedUnderLoad returns the outage of a store that is paused for d.
func stoppedUnderLoad(d time.Duration) outage {
	return outage{name: fmt.Sprintf("stopped %v under load", d), clients: usual, before: 3 * time.Second, after: 4 * time.Second, first: firstP99, later: laterP99,
		fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return stopStore(ctx, l, d) }}
}

// stopStore pauses the first region's store for d.
func stopStore(ctx context.Context, l *e2e.Cluster, d time.Duration) error {
	if err := l.Redis[0].Pause(); err != nil {
		return err
	}
	e2e.Pause(ctx, d)
	return l.Redis[0].Resume()
}

// killStore kills the first region's store, whose contents are lost, and starts it again after d.
func killStore(ctx context.Context, l *e2e.Cluster, d time.Duration) error {
	if err := l.Redis[0].Kill9(); err != nil {
		return err
	}
	e2e.Pause(ctx, d)
	return l.Redis[0].Start()
}

// burn runs other processes that use the whole processor for burnFor.
func burn(ctx context.Context, l *e2e.Cluster, _ int) error {
	stop, err := e2e.Busy(l.Dir, burners)
	e2e.Pause(ctx, burnFor)
	return errors.Join(err, stop())
}

// uniqueKey returns a key that no other run has.
func uniqueKey(plan outagePlan, run, number int) string {
	return fmt.Sprintf("%s-%d-%d-%d", plan.name(), run, number, time.Now().UnixNano())
}

// seldom returns clients that ask once in five seconds each: two requests a second in total.
func seldom(run int) (out []client) {
	all := plans(checked...)
	for i, p := range all {
		out = append(out, client{plan: p, key: uniqueKey(p, run, i), every: 5 * time.Second, from: time.Duration(i) * 500 * time.Millisecond})
	}
	return out
}

// usual returns the clients of each plan: one at half of its limit, a greedy one at twice its limit or more, and 100
// that ask once each.
func usual(run int) (out []client) {
	for i, p := range plans(checked...) {
		from := time.Duration(i) * 3 * time.Millisecond
		half, double := time.Second/(outageRate/2), time.Second/(2*outageRate)
		if p.counts() {
			half = 2 * outageWindow / outageCount
		}
		out = append(out, client{plan: p, key: uniqueKey(p, run, 0), every: half, from: from},
			client{plan: p, key: uniqueKey(p, run, 1), every: double, from: from, greedy: true})
		for n := range 100 {
			out = append(out, client{plan: p, key: uniqueKey(p, run, 2+n), from: from + time.Duration(n)*300*time.Millisecond})
		}
	}
	return out
}

// counts reports whether the plan has a counting limit.
func (p outagePlan) counts() bool {
	return p.algorithm != "token_bucket" && p.algorithm != "leaky_bucket"
}

// newcomers returns clients that ask once each: sixty requests a second in total.
func newcomers(run int) (out []client) {
	all := plans(checked...)
	for i := range 60 * (stalls + 1) {
		p := all[i%len(all)]
		out = append(out, client{plan: p, key: uniqueKey(p, run, i), from: time.Duration(i) * time.Second / 60})
	}
	return out
}

// crowd returns slowClients clients, far below their limits.
func crowd(run int) (out []client) {
	all := plans(checked...)
	for i := range slowClients {
		p := all[i%len(all)]
		out = append(out, client{plan: p, key: uniqueKey(p, run, i), every: slowEvery, from: slowEvery * time.Duration(i) / slowClients})
	}
	return out
}
