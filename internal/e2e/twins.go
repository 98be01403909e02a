package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/bench"
)

// floorBack is how long after the last mark in the store a daemon takes the floor back: what it
// waits itself, and what the mark may be behind.
const floorBack = floorAfter + 3*time.Second

// twins are two daemons of one region with one Redis, of which the first has a way of its own.
// The first has the session.
type twins struct {
	cluster       *Cluster
	first, second *Region
	way           *link
}

// newTwins starts a second daemon beside the cluster's second region.
func (l *Cluster) newTwins(ctx context.Context) (t *twins, end func() error, err error) {
	t = &twins{cluster: l, first: l.Regions[1]}
	if t.way, err = newLink(t.first.redis); err != nil {
		return nil, nil, err
	}
	back, err := l.lendStore(ctx, t.first, "redis://"+t.way.address())
	if err == nil {
		t.second, err = l.startSecond(t.first)
	}
	end = func() error {
		err := errors.Join(t.second.Terminate(), back(), l.AwaitLeases(ctx))
		t.way.close()
		l.seconds = nil
		return err
	}
	if err == nil {
		err = l.awaitStore(ctx, t.second)
	}
	return t, end, err
}

// awaitStore waits until a daemon decides by its store.
func (l *Cluster) awaitStore(ctx context.Context, r *Region) error {
	err := until(ctx, readyWithin, r.Name+" deciding by its store", func() error {
		modes, err := l.look(ctx, r, 0)
		if err == nil && modes.degraded > 0 {
			err = fmt.Errorf("%d of %d checks are decided without it", modes.degraded, modes.all)
		}
		return err
	})
	if err != nil {
		return l.withLogs(err)
	}
	return nil
}

// load asks all regions and both daemons of this one for a time.
func (t *twins) load(ctx context.Context, d time.Duration) *loading {
	c := t.cluster.load(d)
	c.Regions = append(c.Regions, t.second.Address)
	return begin(ctx, c)
}

// storeLostForOneOfTwo: the daemon that has the session loses its way to the store. It admits
// nothing without it, and the session goes to the other one.
func storeLostForOneOfTwo(ctx context.Context, l *Cluster, s Scale) (out []Result, err error) {
	t, end, err := l.newTwins(ctx)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if err != nil {
		return nil, err
	}
	run := t.load(ctx, 2*s.Run)
	pause(ctx, s.Run/2)
	cut := time.Now()
	t.way.close()
	if err := l.awaitLease(ctx, t.second); err != nil {
		return nil, err
	}
	took := time.Since(cut)
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	return append(bounded(r), unfailing(r),
		atMost("seconds from the cut to a lease of the daemon that has the store", took.Seconds(), 8),
		atLeast("utilisation", r.Utilisation.Min, .8-s.Slack)), nil
}

// storeAndCoordinatorsApart: the first daemon hears the coordinators and loses its way to the
// store; the second has the store and hears no coordinator. It takes the floor back some time
// after the first could last say in the store that it is heard, when the leader has reserved it.
func storeAndCoordinatorsApart(ctx context.Context, l *Cluster, s Scale) (out []Result, err error) {
	t, end, err := l.newTwins(ctx)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if err != nil {
		return nil, err
	}
	err = errors.Join(t.second.Terminate(), t.second.setFlag("--coordinators", "127.0.0.1:1"), t.second.Start())
	if err := errors.Join(err, l.awaitStore(ctx, t.second)); err != nil {
		return nil, err
	}
	run := t.load(ctx, s.Run+floorBack)
	pause(ctx, s.Run/2)
	t.way.close()
	lost := run.at()
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	second := r.Regions[len(r.Regions)-1]
	return append(bounded(r), unfailing(r), admittedLate(second, lost+floorBack)), nil
}

// admittedLate: a daemon has its region's floor from an instant of a run on.
func admittedLate(r bench.RegionReport, from time.Duration) Result {
	return atLeast("admitted by the daemon that has the store, with its floor back", float64(admittedBetween(r.Series, from, from+time.Hour)), 1)
}
