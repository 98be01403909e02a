package regional

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// partingFor is how long a daemon that stops goes on serving HTTP, telling each
	// connection with its next answer that it was the last. A server that closes the
	// connections which are idle at that moment closes some that a request is on its way
	// on, and a client does not know whether that was decided. Who asks ten times a second
	// on a connection is told in time; gRPC needs no such time, for GOAWAY says which calls
	// were not heard.
	partingFor = 100 * time.Millisecond
	// partingLook is how often it looks whether all have gone.
	partingLook = 5 * time.Millisecond
)

// parting sends the connections of an HTTP server away. Safe for concurrent use.
type parting struct {
	stopping <-chan struct{} // closed when the daemon stops
	open     atomic.Int64    // connections
}

// watch counts the connections, as http.Server.ConnState.
func (p *parting) watch(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		p.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		p.open.Add(-1)
	}
}

// begun reports whether the daemon stops.
func (p *parting) begun() bool {
	select {
	case <-p.stopping:
		return true
	default:
		return false
	}
}

// before ends each connection with its next answer once the daemon stops.
func (p *parting) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.begun() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// wait returns when no connection is left, or after so long.
func (p *parting) wait(most time.Duration) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	look := time.NewTicker(partingLook)
	defer look.Stop()
	for p.open.Load() > 0 {
		select {
		case <-deadline.C:
			return
		case <-look.C:
		}
	}
}
