package load

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Run puts the load on the server until its duration is over or ctx ends. Calls that
// fail are counted, not returned; an error means that nothing was measured.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, err := newMeters(&c)
	if err != nil {
		return nil, err
	}
	defer m.close()
	r := &run{config: &c, drawn: drawKeys(&c), from: c.Warmup, until: c.Warmup + c.Duration}
	connections, serve := c.Connections, (*lane).serveGRPC
	r.mold = overGRPC(&c)
	if c.oneAtATime() {
		connections, serve = c.Workers, (*lane).serveHTTP1
		r.mold = overHTTP1(&c)
	}
	if c.Rate > 0 {
		r.every = time.Duration(float64(time.Second) * float64(c.checksPerCall()) / c.Rate)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lanes := make([]*lane, connections)
	var driving sync.WaitGroup
	r.began = time.Now()
	for i := range lanes {
		l := r.newLane()
		lanes[i] = l
		driving.Go(func() {
			l.drive(ctx, func(ctx context.Context, conn net.Conn) error { return serve(l, ctx, conn) })
		})
	}
	before, after, err := r.measure(ctx, m)
	if err != nil {
		stop() // nothing comes of it any more
	}
	driving.Wait()
	if err != nil {
		return nil, err
	}
	return r.report(lanes, after.since(before)), nil
}

// measure reads the meters when what counts begins and when it ends.
func (r *run) measure(ctx context.Context, m *meters) (before, after usage, err error) {
	for _, point := range []struct {
		at time.Duration
		of *usage
	}{{r.from, &before}, {r.until, &after}} {
		select {
		case <-ctx.Done():
			return before, after, context.Cause(ctx)
		case <-time.After(time.Until(r.began.Add(point.at))):
		}
		if *point.of, err = m.read(ctx); err != nil {
			return before, after, fmt.Errorf("processor time: %w", err)
		}
	}
	return before, after, nil
}
