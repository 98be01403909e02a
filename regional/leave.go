package regional

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// drainWithin is how long a daemon that stops goes on serving HTTP. Its next answer on each
	// connection says that it is the last one. A server that closes idle connections at once also
	// closes some with a request on its way, and that client cannot know whether the request was
	// decided. A client with one request a second on a connection gets its last answer in time, also
	// on a machine that delays it by some tenths of a second. gRPC needs no such time, because its
	// GOAWAY says which calls were not processed.
	drainWithin = time.Second
	// drainPoll is how often a daemon that stops checks whether all connections are closed.
	drainPoll = 5 * time.Millisecond
)

// drainer closes the connections of an HTTP server gracefully. Safe for concurrent use.
type drainer struct {
	stopping <-chan struct{} // closed when the daemon stops
	open     atomic.Int64    // number of open connections
}

// countConnections counts the open connections. It is the server's http.Server.ConnState.
func (p *drainer) countConnections(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		p.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		p.open.Add(-1)
	}
}

// draining reports whether the daemon is stopping.
func (p *drainer) draining() bool {
	select {
	case <-p.stopping:
		return true
	default:
		return false
	}
}

// closeConnections wraps a handler. Once the daemon is stopping, the handler closes each connection
// with the next answer.
func (p *drainer) closeConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// wait returns when no connection is open, or after longest.
func (p *drainer) wait(longest time.Duration) {
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for p.open.Load() > 0 {
		select {
		case <-deadline.C:
			return
		case <-poll.C:
		}
	}
}
