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

// errBug is what a client hears of a call that panicked: what went wrong where is for the
// log, since it may hold what others sent.
var errBug = errors.New("the call failed by a bug of the daemon; its log tells where")

// panics tells of calls that panicked and were recovered, so that a bug does not pass for a
// client's failed call. A nil one tells nobody. Safe for concurrent use.
type panics struct {
	metrics *metrics
	log     *slog.Logger
	lines   ratelog.Limiter
}

// caught notes that a call panicked, and returns what its client is told. It is for the
// deferred function that recovers: the stack is that of the panic there.
func (p *panics) caught(call string, cause any) *connect.Error {
	if p != nil {
		p.metrics.panics.Inc()
		if p.lines.Allow("", time.Now()) {
			p.log.Error("a call panicked; this is a bug, please report it with this line", "call", call, "panic", cause, "stack", string(debug.Stack()))
		}
	}
	return connect.NewError(connect.CodeInternal, errBug)
}

// keepPause is how long a background loop that panicked rests.
const keepPause = time.Second

// keep runs a background loop until it returns. One that panics is told of, and begins again after
// keepPause: the daemon answers without it meanwhile.
func (p *panics) keep(ctx context.Context, loop string, run func(context.Context)) {
	for p.guard(loop, func() { run(ctx) }) && pause(ctx, keepPause) {
	}
}

// guard runs do and reports whether it panicked, which is told of.
func (p *panics) guard(what string, do func()) (panicked bool) {
	err := caughtIn(func() error { do(); return nil })
	if bug, ok := errors.AsType[*panicError](err); ok {
		_ = p.caught(what, bug.Error())
		return true
	}
	return false
}
