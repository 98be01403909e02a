package regional

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// alone makes a call that is not shared, and waits for it no longer than for a shared one. After
// errGone and errGivenUp the call goes on, so its arguments are still in use.
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

// panicError is a panic on a goroutine that serves a caller.
type panicError struct {
	cause any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%v\n%s", e.cause, e.stack) }

// isBug reports whether an error of a call is a recovered panic.
func isBug(err error) bool {
	_, bug := errors.AsType[*panicError](err)
	return bug
}

// caughtIn runs do and turns a panic into an error, so that it ends a call and not the process. A
// panic that was caught before and raised again keeps its first stack.
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

// panicAgain panics if err is a recovered panic, possibly one of another goroutine. It then ends
// the call of the present goroutine, where panics of calls are handled.
func panicAgain(err error) {
	if bug, ok := errors.AsType[*panicError](err); ok {
		panic(bug)
	}
}

// atOnce makes a call that is not shared, of a store that always answers.
func atOnce(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
