package regional

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"aliquot/internal/ratelog"

	"connectrpc.com/connect"
)

// errBug is the error that the client of a call that panicked gets. The details are only logged,
// since they may contain data of other clients.
var errBug = errors.New("the call failed by a bug of the daemon; its log tells where")

// panics logs and counts calls that panicked and were recovered, so that a bug is not mistaken for
// a client's failed call. A nil panics logs nothing. Safe for concurrent use.
type panics struct {
	metrics *metrics
	log     *slog.Logger
	lines   ratelog.Limiter
}

// caught records that a call panicked, and returns the error for its client. It must be called by
// the deferred function that recovers, so that the logged stack is that of the panic.
func (p *panics) caught(call string, cause any) *connect.Error {
	if p != nil {
		p.metrics.panics.Inc()
		if p.lines.Allow("", time.Now()) {
			p.log.Error("a call panicked; this is a bug, please report it with this line", "call", call, "panic", cause, "stack", string(debug.Stack()))
		}
	}
	return connect.NewError(connect.CodeInternal, errBug)
}

// keepPause is the pause of a background loop that panicked.
const keepPause = time.Second

// keep runs a background loop until it returns. A loop that panics is logged and starts again after
// keepPause; meanwhile the daemon answers without it.
func (p *panics) keep(ctx context.Context, loop string, run func(context.Context)) {
	for p.guard(loop, func() { run(ctx) }) && pause(ctx, keepPause) {
	}
}

// guard runs do. It logs a panic and reports whether there was one.
func (p *panics) guard(what string, do func()) (panicked bool) {
	err := caughtIn(func() error { do(); return nil })
	if bug, ok := errors.AsType[*panicError](err); ok {
		_ = p.caught(what, bug.Error())
		return true
	}
	return false
}
