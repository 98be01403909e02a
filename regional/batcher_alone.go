package regional

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
		err := caughtIn(func() error { return call(context.WithoutCancel(ctx)) })
		b.sign(began, err)
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
		w.done <- err
	}()
	err := b.wait(ctx, w, wait)
	if bug, ok := errors.AsType[*panicError](err); ok {
		panic(bug.Error()) // where panics of calls are looked after
	}
	return err
}

// answerAlone makes a call by a limiter's way of those that are not shared, and returns what
// it brings. What a call that was given up still brings is nobody's.
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

// panicError is a panic on a goroutine that serves a caller.
type panicError struct {
	cause any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%v\n%s", e.cause, e.stack) }

// caughtIn makes a panic an error, so that it ends a call and not the process.
func caughtIn(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause: cause, stack: debug.Stack()}
		}
	}()
	return do()
}

// atOnce makes a call that is not shared of a store that is never silent.
func atOnce(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
