package leader

import (
	"context"

	"aliquot/budget"
)

// Manual is a Loop that its caller drives event by event, for tests of packages that use a Loop. Its
// methods must not be called concurrently; other goroutines may use the Loop meanwhile.
type Manual struct{ *Loop }

// Manual takes charge of the budgets, as Run does, and returns the Loop without running it. The node
// must lead.
func (l *Leadership) Manual(ctx context.Context) (*Manual, error) {
	loop, err := l.establish(ctx)
	if err != nil {
		return nil, err
	}
	loop.reloadRules(ctx)
	return &Manual{loop}, nil
}

// Publish makes Current return the Loop.
func (m *Manual) Publish() { m.setLoop(m.Loop) }

// Step passes an event to the leader's state machine and carries out the effects.
func (m *Manual) Step(ctx context.Context, ev budget.LeaderEvent) { m.step(ctx, ev) }

// End ends the Loop for a reason, as run does.
func (m *Manual) End(reason error) {
	m.failed = reason
	close(m.done)
}

// RunPosted runs the next request that was posted to the loop, and waits for it if there is none.
func (m *Manual) RunPosted(ctx context.Context) error {
	select {
	case work := <-m.inbox:
		work(ctx)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Committed waits for the outcome of the commit in flight and handles it.
func (m *Manual) Committed(ctx context.Context) error {
	select {
	case err := <-m.committed:
		m.commitDone(ctx, err)
		return m.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Proof returns the channel of the outcome of the proof of leadership in flight.
func (m *Manual) Proof() <-chan error { return m.verified }

// ProofDone handles the outcome of a proof of leadership.
func (m *Manual) ProofDone(ctx context.Context, err error) { m.verifyDone(ctx, err) }

// AddTerm changes the term of raft in which the epoch was created, by n.
func (m *Manual) AddTerm(n int) { m.term += uint64(n) }
