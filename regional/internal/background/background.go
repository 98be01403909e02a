// Package background runs work whose panics end a call and not the process.
package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"aliquot/internal/ratelog"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrPanic is the error that the client of a call that panicked gets. The details are only logged,
// since they may contain data of other clients.
var ErrPanic = errors.New("the call failed because of a bug in the daemon; its log says where")

// Panics logs and counts calls that panicked and were recovered, so that a bug is not mistaken for
// a client's failed call. A nil panics logs nothing. Safe for concurrent use.
type Panics struct {
	// Count counts the panics.
	Count prometheus.Counter
	Log   *slog.Logger
	lines ratelog.Limiter
}

// Caught records that a call panicked, and returns the error for its client. It must be called by
// the deferred function that recovers, so that the logged stack is that of the panic.
func (p *Panics) Caught(call string, cause any) *connect.Error {
	if p != nil {
		p.Count.Inc()
		if p.lines.Allow("", time.Now()) {
			p.Log.Error("a call panicked; this is a bug, please report it with this line", "call", call, "panic", cause, "stack", string(debug.Stack()))
		}
	}
	return connect.NewError(connect.CodeInternal, ErrPanic)
}

// keepPause is the pause of a background loop that panicked.
const keepPause = time.Second

// Keep runs a background loop until it returns. A loop that panics is logged and starts again after
// keepPause; meanwhile the daemon answers without it.
func (p *Panics) Keep(ctx context.Context, loop string, run func(context.Context)) {
	for p.Guard(loop, func() { run(ctx) }) && Pause(ctx, keepPause) {
	}
}

// Guard runs do. It logs a panic and reports whether there was one.
func (p *Panics) Guard(what string, do func()) (panicked bool) {
	err := Catch(func() error { do(); return nil })
	if bug, ok := errors.AsType[*PanicError](err); ok {
		_ = p.Caught(what, bug.Error())
		return true
	}
	return false
}

// Pause waits. It returns false if the context ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// PanicError is a panic on a goroutine that serves a caller.
type PanicError struct {
	cause any
	stack []byte
}

// Error returns the cause and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%v\n%s", e.cause, e.stack) }

// IsPanic reports whether an error of a call is a recovered panic.
func IsPanic(err error) bool {
	_, bug := errors.AsType[*PanicError](err)
	return bug
}

// Recover ends a panic of the function that defers it, and makes it that function's error, so that
// it ends a call and not the process. A panic that was recovered before and raised again keeps its
// first stack.
func Recover(err *error) {
	switch cause := recover().(type) {
	case nil:
	case *PanicError:
		*err = cause
	default:
		*err = &PanicError{cause: cause, stack: debug.Stack()}
	}
}

// Catch runs do and turns a panic into an error; see Recover.
func Catch(do func() error) (err error) {
	defer Recover(&err)
	return do()
}

// Rethrow panics if err is a recovered panic, possibly one of another goroutine. It then ends
// the call of the present goroutine, where panics of calls are handled.
func Rethrow(err error) {
	if bug, ok := errors.AsType[*PanicError](err); ok {
		panic(bug)
	}
}
