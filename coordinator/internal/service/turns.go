package service

import (
	"context"
	"fmt"

	"aliquot/cluster"
)

// turns has room for the changes of one kind that may be made here at a time. Make it with newTurns.
type turns chan struct{}

// newTurns returns turns for one change at a time.
func newTurns() turns { return make(turns, 1) }

// begin waits until no other change is made here; done ends the caller's turn. err is cluster.ErrNotProposed if ctx is
// over first.
func (t turns) begin(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", cluster.ErrNotProposed, ctx.Err())
	}
	done = func() { <-t }
	if ctx.Err() != nil {
		done()
		return nil, fmt.Errorf("%w: %w", cluster.ErrNotProposed, ctx.Err())
	}
	return done, nil
}
