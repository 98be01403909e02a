package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"aliquot/internal/e2e"
)

const (
	// backendWorkers serve in backendService each while nobody waits: 150 requests a second.
	backendWorkers = 3
	backendService = 20 * time.Millisecond
	// backendSlowdown waiting requests double the time that each takes; more than
	// backendWorst waiting requests slow it down no further.
	backendSlowdown, backendWorst = 300, 1500
	// backendQueue is how many requests can wait; more are answered 503.
	backendQueue = 100_000
)

// surgeBackend is a service that collapses: a queue before a few workers, who take longer for each
// request the more wait, as with locks, memory and connections that all share. A request that was
// queued is worked on although its rider has given up.
type surgeBackend struct {
	address string
	server  *http.Server
	jobs    chan backendJob
	arrived atomic.Int64
}

// backendJob is a request that waits, and is done when the channel is closed.
type backendJob struct {
	arrived time.Time
	done    chan struct{}
}

// startBackend begins a backend on a free port; stop ends it.
func startBackend(ctx context.Context) (*surgeBackend, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &surgeBackend{address: l.Addr().String(), jobs: make(chan backendJob, backendQueue)}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: e2e.CallWithin}
	for range backendWorkers {
		go b.work(ctx)
	}
	go b.server.Serve(l)
	return b, nil
}

// stop closes the listener and every connection. The workers end with the context of startBackend.
func (b *surgeBackend) stop() { b.server.Close() }

// ServeHTTP answers when a worker is done with the request.
func (b *surgeBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.arrived.Add(1)
	job := backendJob{arrived: time.Now(), done: make(chan struct{})}
	select {
	case b.jobs <- job:
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	select {
	case <-job.done:
	case <-r.Context().Done():
	}
}

// work is one worker. It begins a request when it was free for it, not when this machine let it run:
// what else runs here takes nothing of what the backend can do.
func (b *surgeBackend) work(ctx context.Context) {
	var free time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-b.jobs:
			waiting := time.Duration(min(len(b.jobs), backendWorst))
			if free.Before(job.arrived) {
				free = job.arrived
			}
			free = free.Add(backendService + backendService*waiting/backendSlowdown)
			e2e.Pause(ctx, time.Until(free))
			close(job.done)
		}
	}
}
