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
	panicAgain(err)
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

// isBug tells a panic that was made an error from the errors of calls.
func isBug(err error) bool {
	_, bug := errors.AsType[*panicError](err)
	return bug
}

// caughtIn makes a panic an error, so that it ends a call and not the process. One that was
// caught before, and went on, keeps where it came from.
func caughtIn(do func() error) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *panicError:
			err = cause
		default:
			err = &panicError{cause: cause, stack: debug.Stack()}
		}
	}()
	return do()
}

// panicAgain lets a panic that was caught, on another goroutine perhaps, reach the one whose
// call it is, where panics of calls are looked after.
func panicAgain(err error) {
	if bug, ok := errors.AsType[*panicError](err); ok {
		panic(bug)
	}
}

// atOnce makes a call that is not shared of a store that is never silent.
func atOnce(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
