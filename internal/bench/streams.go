package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Stream is a part of a load: what one Config sends, from a while after the beginning.
type Stream struct {
	Config
	After time.Duration
}

// together runs streams of the same clients at the same time and reports each.
func together(ctx context.Context, streams []Stream) ([]*Report, error) {
	run := newRunName()
	reports, errs := make([]*Report, len(streams)), make([]error, len(streams))
	began := time.Now()
	var wg sync.WaitGroup
	for i, s := range streams {
		if s.Run == "" {
			s.Run = run
		}
		wg.Go(func() {
			if !waitUntil(ctx, began.Add(s.After)) {
				errs[i] = ctx.Err()
				return
			}
			reports[i], errs[i] = Rotate(ctx, s.Config)
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

// waitUntil lets time pass and reports whether the run goes on.
func waitUntil(ctx context.Context, t time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(t)):
		return true
	}
}
