package regional

import (
	"context"
	"time"
)

// alone makes a call that is not shared, and waits for it no longer than for those that are.
// After errGone and errGivenUp the call goes on, and what it uses is in use.
func (b *batcher) alone(ctx context.Context, call func(context.Context) error) error {
	w := b.waiter(nil)
	w.sent = true
	b.mu.Lock()
	wait := b.first(w.came)
	b.running++
	b.mu.Unlock()
	go func() {
		began := time.Now()
		err := call(context.WithoutCancel(ctx))
		b.sign(began, err)
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
		w.done <- err
	}()
	return b.wait(ctx, w, wait)
}

// atOnce makes a call that is not shared of a store that is never silent.
func atOnce(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
