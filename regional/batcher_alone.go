package regional

import (
	"context"
	"time"

	"aliquot/regional/internal/background"
)

// alone makes a call that is not shared, and waits for it no longer than for a shared one. After
// charge.ErrGone and errGivenUp the call goes on, so its arguments are still in use.
func (b *batcher) alone(ctx context.Context, call func(context.Context) error) error {
	w := b.waiter(nil)
	w.sent = true
	b.mu.Lock()
	wait := b.first(w.came)
	b.running++
	b.mu.Unlock()
	go func() {
		began := time.Now()
		err := background.Catch(func() error { return call(context.WithoutCancel(ctx)) })
		b.sign(began, err)
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
		w.done <- err
	}()
	err := b.wait(ctx, w, wait)
	background.Rethrow(err)
	return err
}

// answerAlone makes a call that is not shared through a limiter, and returns its result. The result
// of a call that was given up is dropped.
func answerAlone[T any](ctx context.Context, l *limiter, call func(context.Context) (T, error)) (T, error) {
	var out, none T
	err := l.alone(ctx, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// atOnce makes a call that is not shared, of a store that always answers.
func atOnce(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
