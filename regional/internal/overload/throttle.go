package overload

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"aliquot/internal/penalty"
	"aliquot/internal/ratelog"
	"aliquot/regional/internal/telemetry"
)

const (
	// mostDelayed caps the answers that are delayed at a time, and mostDelayedOfOne those of one
	// connection. Each holds a goroutine and its call, some 10 MiB in all.
	mostDelayed, mostDelayedOfOne = 1024, 64
	// endAfter is the time left to a gRPC connection that is being ended, for the answers under
	// way.
	endAfter = time.Second
)

// Throttle slows down connections that get nothing but denials. After so many denials in a row each
// further one is delayed, until a request is admitted. If too many answers are already delayed, the
// connection is ended instead. A connection from a trusted proxy, or from this host, carries many
// clients and is not slowed down. Nil slows nothing down. Safe for concurrent use.
type Throttle struct {
	after   uint32 // number of denials in a row; 0: nothing is slowed down
	trusts  func(peer string) bool
	delayed atomic.Int32
	metrics *telemetry.Metrics
	log     *slog.Logger
	lines   ratelog.Limiter
	pause   func(context.Context, time.Duration) bool // delays an answer
}

// NewThrottle returns a throttle that slows a connection down after so many denials in a row, unless
// trusts reports true for its peer; 0: never. pause delays an answer.
func NewThrottle(
	after int, trusts func(peer string) bool, pause func(context.Context, time.Duration) bool, m *telemetry.Metrics, log *slog.Logger,
) *Throttle {
	return &Throttle{after: uint32(after), trusts: trusts, pause: pause, metrics: m, log: log}
}

// line is a connection that may be slowed down. It is also the connection's remote address, because
// over both net/http and gRPC that is what a call knows of its connection.
type line struct {
	net.Addr
	conn    net.Conn
	streak  penalty.Streak
	delayed atomic.Int32
	ending  atomic.Bool
	closing atomic.Bool
	// trusted: the connection is not slowed down. late: its latest read waited too long at the
	// door.
	trusted bool
	late    atomic.Bool
}

// Listener gives each connection a line.
func (t *Throttle) Listener(l net.Listener) net.Listener { return &throttledListener{l, t} }

type throttledListener struct {
	net.Listener
	throttle *Throttle
}

// Accept waits for the next connection.
func (l *throttledListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return c, err
	}
	return &throttledConn{c, &line{
		Addr: c.RemoteAddr(), conn: c, trusted: l.throttle.after == 0 || l.throttle.trusts(c.RemoteAddr().String()),
	}}, nil
}

type throttledConn struct {
	net.Conn
	line *line
}

// RemoteAddr returns the connection's line.
func (c *throttledConn) RemoteAddr() net.Addr { return c.line }

// ConnContext puts the line into the context of calls on a connection of net/http, as gRPC does. It
// is the server's http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, lineCallsKey{}, new(lineCalls))
	if l, ok := c.RemoteAddr().(*line); ok {
		return peer.NewContext(ctx, &peer.Peer{Addr: l})
	}
	return ctx
}

// lineOf returns the line that a call came on, or nil if it is not one that is slowed down.
func lineOf(ctx context.Context) *line {
	if l := anyLineOf(ctx); l != nil && !l.trusted {
		return l
	}
	return nil
}

// anyLineOf returns the line that a call came on, or nil if there is none.
func anyLineOf(ctx context.Context) *line {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	l, _ := p.Addr.(*line)
	return l
}

// LateCall reports whether a call waited too long before it was read.
func LateCall(ctx context.Context) bool {
	l := anyLineOf(ctx)
	return l != nil && l.late.Load()
}

// Answered records an answer before it leaves, and returns when the answer may leave. The caller
// must hold nothing that others wait for. The delay is at most half of the time that the caller has
// left.
func (t *Throttle) Answered(ctx context.Context, admitted bool) {
	if t == nil || t.after == 0 {
		return
	}
	l := lineOf(ctx)
	if l == nil {
		return
	}
	delay := l.streak.Answered(admitted, t.after)
	if deadline, ok := ctx.Deadline(); ok {
		delay = min(delay, time.Until(deadline)/2)
	}
	if delay <= 0 {
		return
	}
	defer t.delayed.Add(-1)
	defer l.delayed.Add(-1)
	if all, here := t.delayed.Add(1), l.delayed.Add(1); all > mostDelayed || here > mostDelayedOfOne {
		if !l.ending.Swap(true) {
			t.metrics.ThrottleEnds.Inc()
			t.tellEnd(l)
		}
		return
	}
	t.metrics.Throttled.Inc()
	t.pause(ctx, delay)
}

// tellEnd logs a connection that is being ended. If it belongs to a gateway, that is a mistake in
// the settings, because the gateway's other clients get errors.
func (t *Throttle) tellEnd(l *line) {
	if t.lines.Allow("", time.Now()) {
		t.log.Warn("a connection got nothing but denials, and so many at once that it is closed; if it is a gateway's, which carries many clients, name its network in --trusted-proxies",
			"peer", l.String())
	}
}

// Ending reports whether the connection of a call has to end.
func Ending(ctx context.Context) bool {
	l := lineOf(ctx)
	return l != nil && l.ending.Load()
}

// Before ends a connection of net/http that has to end after its next answer, by Connection: close,
// which is a GOAWAY over HTTP/2.
func (t *Throttle) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Ending(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Tap refuses a call on a gRPC connection that has to end, before anything is decided. It closes
// the connection a while later, because grpc-go cannot ask a single client to leave.
func (t *Throttle) Tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	l := lineOf(ctx)
	if l == nil || !l.ending.Load() {
		return ctx, nil
	}
	if !l.closing.Swap(true) {
		time.AfterFunc(endAfter, func() { l.conn.Close() })
	}
	return ctx, status.Error(grpccodes.Unavailable, "this connection had nothing but denials and is being closed; wait as long as answers say, then open another one")
}
