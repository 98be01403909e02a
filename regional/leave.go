package regional

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// closeWithin is how long a daemon that stops goes on serving HTTP. With its next answer it
	// tells each connection that this answer is the last one. A server that closes its idle
	// connections at once also closes some on which a request is on its way, and that client does
	// not know whether the request was decided. A client that asks once a second on a connection is
	// told in time, also on a machine that holds it up for some tenths of a second. gRPC needs no such
	// time, because GOAWAY says which calls were not processed.
	closeWithin = time.Second
	// drainPoll is the interval at which it looks whether all connections are closed.
	drainPoll = 5 * time.Millisecond
)

// drainer closes the connections of an HTTP server gracefully. Safe for concurrent use.
type drainer struct {
	stopping <-chan struct{} // closed when the daemon stops
	open     atomic.Int64    // number of open connections
}

// watch counts the open connections. It is the server's http.Server.ConnState.
func (p *drainer) watch(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		p.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		p.open.Add(-1)
	}
}

// begun reports whether the daemon is stopping.
func (p *drainer) begun() bool {
	select {
	case <-p.stopping:
		return true
	default:
		return false
	}
}

// before wraps a handler. Once the daemon is stopping, it closes each connection with the next
// answer.
func (p *drainer) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.begun() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// wait returns when no connection is open, or after most at the latest.
func (p *drainer) wait(most time.Duration) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	look := time.NewTicker(drainPoll)
	defer look.Stop()
	for p.open.Load() > 0 {
		select {
		case <-deadline.C:
			return
		case <-look.C:
		}
	}
}
