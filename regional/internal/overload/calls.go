package overload

import (
	"context"
	"net/http"
	"sync/atomic"
)

// openPerCPU caps the calls over HTTP/2 that are open for each processor, including those whose clients do
// not read the answer; maxOpen caps them on any machine. A call keeps some 50 KB until its answer is read,
// and a processor answers as many calls in the time that a check waits for its store. While half of them
// are open, a connection may have at most fewOpen.
const openPerCPU, maxOpen, fewOpen = 1024, 4096, 16

// OpenCalls counts the open calls over HTTP/2 and refuses further ones, by the status alone, which
// also a client gets that reads no body. Safe for concurrent use.
type OpenCalls struct {
	all atomic.Int64
	max int64
	// status returns the status of a refusal.
	status func(*http.Request) int
}

// NewOpenCalls returns a count of no calls, for a daemon with so many processors. status returns the status
// with which a call is refused.
func NewOpenCalls(processors int, status func(*http.Request) int) *OpenCalls {
	return &OpenCalls{max: min(int64(processors)*openPerCPU, maxOpen), status: status}
}

// lineCalls counts the open calls of one connection.
type lineCalls struct{ n atomic.Int64 }

// lineCallsKey is the key of the lineCalls in a connection's context.
type lineCallsKey struct{}

// Before counts the calls to next until their stream has closed. Over HTTP/1.1 a connection has one call.
func (o *OpenCalls) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		var line *lineCalls
		if r.ProtoMajor >= 2 {
			line, _ = ctx.Value(lineCallsKey{}).(*lineCalls)
		}
		if line == nil {
			next.ServeHTTP(w, r)
			return
		}
		all, here := o.all.Add(1), line.n.Add(1)
		over := func() { o.all.Add(-1); line.n.Add(-1) }
		if all > o.max || all > o.max/2 && here > fewOpen {
			over()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(o.status(r))
			return
		}
		context.AfterFunc(ctx, over)
		next.ServeHTTP(w, r)
	})
}
