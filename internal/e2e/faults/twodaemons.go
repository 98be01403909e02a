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

// floorBack is how long after the last mark in the store a daemon takes the floor back: its wait, and the age that the
// mark may have.
const floorBack = e2e.FloorAfter + 3*time.Second

// twoDaemons are two daemons of one region with one Redis. The first has the session, and reaches the Redis over a
// link.
type twoDaemons struct {
	cluster       *e2e.Cluster
	first, second *e2e.Region
	link          *e2e.Link
}

// startTwoDaemons starts a second daemon in the cluster's second region. end ends it.
func startTwoDaemons(ctx context.Context, l *e2e.Cluster) (t *twoDaemons, end func() error, err error) {
	t = &twoDaemons{cluster: l, first: l.Regions[1]}
	if t.link, err = e2e.NewLink(t.first.Redis); err != nil {
		return nil, nil, err
	}
	back, err := l.LendStore(ctx, t.first, "redis://"+t.link.Address())
	if err == nil {
		t.second, err = l.StartSecond(t.first)
	}
	end = func() error {
		err := errors.Join(t.second.Terminate(), back(), l.AwaitLeases(ctx))
		t.link.Close()
		l.Seconds = nil
		return err
	}
	if err == nil {
		err = awaitStore(ctx, l, t.second)
	}
	return t, end, err
}

// awaitStore waits until a daemon decides all checks by its store.
func awaitStore(ctx context.Context, l *e2e.Cluster, r *e2e.Region) error {
	err := e2e.Until(ctx, e2e.ReadyWithin, r.Name+" deciding by its store", func() error {
		modes, err := l.Probe(ctx, r, 0)
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

// load runs a client for d that asks all regions, and both daemons of this one.
func (t *twoDaemons) load(ctx context.Context, d time.Duration) *clients.Loading {
	c := clients.BigLoad(t.cluster, d)
	c.Regions = append(c.Regions, t.second.Address)
	return clients.Begin(ctx, c)
}

// isolateSecond cuts the second daemon from the coordinators, until cut ends. The second has had the session before, so
// it knows when a share in the store was written. Now the first has the session.
func (t *twoDaemons) isolateSecond(ctx context.Context) (cut e2e.Trouble, err error) {
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

// loadElsewhere runs a client for d that asks the other regions and the second daemon. It does not ask the first, so
// the other regions borrow what this one does not use.
func (t *twoDaemons) loadElsewhere(ctx context.Context, d time.Duration) *clients.Loading {
	c := clients.BigLoad(t.cluster, d)
	c.Regions = []string{t.cluster.Regions[0].Address, t.cluster.Regions[2].Address, t.second.Address}
	return clients.Begin(ctx, c)
}

// storeLostForOneOfTwo: the daemon that has the session loses its link to the store. It admits nothing without the
// store, and the other daemon gets the session.
func storeLostForOneOfTwo(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	t, end, err := startTwoDaemons(ctx, l)
	if end != nil {
		defer func() { err = errors.Join(err, end()) }()
	}
	if err != nil {
		return nil, err
	}
	run := t.load(ctx, 2*s.Run)
	e2e.Pause(ctx, s.Run/2)
	cut := time.Now()
	t.link.Close()
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

// storeAndCoordinatorsApart: the first daemon reaches the coordinators and loses the store; the second reaches the
// store and no coordinator. The other regions have borrowed the region's floor. The second daemon takes it back some
// time after the first last wrote its mark into the store. By then the leader has reserved the floor.
func storeAndCoordinatorsApart(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	t, end, err := startTwoDaemons(ctx, l)
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
	t.link.Close()
	lost := run.At()
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	second := r.Regions[len(r.Regions)-1]
	return append(promise.Bounded(r), promise.AllAnswered(r), admittedLate(second, lost+floorBack)), cut.End()
}

// admittedLate returns the promise that a daemon admits something from an instant of a run on.
func admittedLate(r bench.RegionReport, from time.Duration) promise.Result {
	return promise.AtLeast("admitted by the daemon that has the store, with its floor back", float64(clients.AdmittedBetween(r.Series, from, from+time.Hour)), 1)
}
