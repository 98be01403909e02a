package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// floorBack is how long after the last mark in the store a daemon takes the floor back: what it
// waits itself, and what the mark may be behind.
const floorBack = e2e.FloorAfter + 3*time.Second

// twins are two daemons of one region with one Redis, of which the first has a way of its own.
// The first has the session.
type twins struct {
	cluster       *e2e.Cluster
	first, second *e2e.Region
	way           *e2e.Link
}

// newTwins starts a second daemon beside the cluster's second region.
func newTwins(ctx context.Context, l *e2e.Cluster) (t *twins, end func() error, err error) {
	t = &twins{cluster: l, first: l.Regions[1]}
	if t.way, err = e2e.NewLink(t.first.Redis); err != nil {
		return nil, nil, err
	}
	back, err := l.LendStore(ctx, t.first, "redis://"+t.way.Address())
	if err == nil {
		t.second, err = l.StartSecond(t.first)
	}
	end = func() error {
		err := errors.Join(t.second.Terminate(), back(), l.AwaitLeases(ctx))
		t.way.Close()
		l.Seconds = nil
		return err
	}
	if err == nil {
		err = awaitStore(ctx, l, t.second)
	}
	return t, end, err
}

// awaitStore waits until a daemon decides by its store.
func awaitStore(ctx context.Context, l *e2e.Cluster, r *e2e.Region) error {
	err := e2e.Until(ctx, e2e.ReadyWithin, r.Name+" deciding by its store", func() error {
		modes, err := l.Look(ctx, r, 0)
		if err == nil && modes.Degraded > 0 {
			err = fmt.Errorf("%d of %d checks are decided without it", modes.Degraded, modes.All)
		}
		return err
	})
	if err != nil {
		return l.WithLogs(err)
	}
	return nil
}

// load asks all regions and both daemons of this one for a time.
func (t *twins) load(ctx context.Context, d time.Duration) *clients.Loading {
	c := clients.BigLoad(t.cluster, d)
	c.Regions = append(c.Regions, t.second.Address)
	return clients.Begin(ctx, c)
}

// isolateSecond has the second daemon hear no coordinator until the trouble is ended. It has had the
// session before, so it can tell that a share in the store is of that time. Now the first has the session.
func (t *twins) isolateSecond(ctx context.Context) (cut e2e.Trouble, err error) {
	if cut, err = t.cluster.LinkCoordinators(t.second); err != nil {
		return cut, err
	}
	if err := errors.Join(t.first.Terminate(), t.cluster.AwaitLease(ctx, t.second), t.first.Start()); err != nil {
		return cut, err
	}
	if err := errors.Join(t.second.Terminate(), t.cluster.AwaitLease(ctx, t.first), t.second.Start()); err != nil {
		return cut, err
	}
	return cut, errors.Join(awaitStore(ctx, t.cluster, t.second), cut.Begin())
}

// loadElsewhere asks the other regions and the second daemon for a time. The first is not asked, so the
// others borrow what its region does not use.
func (t *twins) loadElsewhere(ctx context.Context, d time.Duration) *clients.Loading {
	c := clients.BigLoad(t.cluster, d)
	c.Regions = []string{t.cluster.Regions[0].Address, t.cluster.Regions[2].Address, t.second.Address}
	return clients.Begin(ctx, c)
}

// storeLostForOneOfTwo: the daemon that has the session loses its way to the store. It admits
// nothing without it, and the session goes to the other one.
func storeLostForOneOfTwo(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	t, end, err := newTwins(ctx, l)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if err != nil {
		return nil, err
	}
	run := t.load(ctx, 2*s.Run)
	e2e.Pause(ctx, s.Run/2)
	cut := time.Now()
	t.way.Close()
	if err := l.AwaitLease(ctx, t.second); err != nil {
		return nil, err
	}
	took := time.Since(cut)
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r),
		promise.AtMost("seconds from the cut to a lease of the daemon that has the store", took.Seconds(), 8),
		promise.AtLeast("utilisation", r.Utilisation.Min, .8-s.Slack)), nil
}

// storeAndCoordinatorsApart: the first daemon hears the coordinators and loses its way to the
// store; the second has the store and hears no coordinator. It takes the floor, which the other regions
// have borrowed, back some time after the first could last say in the store that it is heard. By then the
// leader has reserved it.
func storeAndCoordinatorsApart(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	t, end, err := newTwins(ctx, l)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if err != nil {
		return nil, err
	}
	cut, err := t.isolateSecond(ctx)
	if err != nil {
		return nil, err
	}
	run := t.loadElsewhere(ctx, s.Run+floorBack)
	e2e.Pause(ctx, s.Run/2)
	t.way.Close()
	lost := run.At()
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	second := r.Regions[len(r.Regions)-1]
	return append(promise.Bounded(r), promise.AllAnswered(r), admittedLate(second, lost+floorBack)), cut.End()
}

// admittedLate: a daemon has its region's floor from an instant of a run on.
func admittedLate(r bench.RegionReport, from time.Duration) promise.Result {
	return promise.AtLeast("admitted by the daemon that has the store, with its floor back", float64(clients.AdmittedBetween(r.Series, from, from+time.Hour)), 1)
}
