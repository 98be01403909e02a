package cluster

import (
	"context"
	"fmt"
)

// Turns has room for the changes of one kind that may be made here at a time. Make it with NewTurns.
type Turns chan struct{}

// NewTurns returns turns for one change at a time.
func NewTurns() Turns { return make(Turns, 1) }

// Begin waits until no other change is made here; done ends the caller's turn. err is ErrNotProposed if ctx is
// over first.
func (t Turns) Begin(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNotProposed, ctx.Err())
	}
	done = func() { <-t }
	if ctx.Err() != nil {
		done()
		return nil, fmt.Errorf("%w: %w", ErrNotProposed, ctx.Err())
	}
	return done, nil
}
