package regional

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/tap"

	"aliquot/internal/envoyrls"
	"aliquot/internal/httpanswer"
	"aliquot/internal/rpc"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/storeguard"
)

// Bounds on the work that is under way at once. Reports, /readyz, metrics, and health over gRPC are
// outside of them, so that a daemon with too many calls keeps its lease.
const (
	// maxDeciding caps the requests that are being decided, to as many as the store's calls have
	// room for. A request that waits longer at the store loses its patience and is decided without
	// it.
	maxDeciding = storeguard.BatchCalls * storeguard.GroupsPerCall
	// maxWaiting caps the calls that wait for their turn. Each waits for at most decideWait.
	maxWaiting = 4096
	decideWait = 50 * time.Millisecond
	// maxCallsGRPC caps the calls under way over gRPC: as many as one core decides in 100 ms.
	maxCallsGRPC = 2048
	// overloadRetry is the wait that a refused call is told.
	overloadRetry = time.Second
	// maxWeight caps the memory of the messages that are being read and decided, in bytes.
	// weighWait is how long a message waits for its room.
	maxWeight = 64 << 20
	weighWait = 2 * time.Second
	// maxOpen caps the calls over HTTP/2 that are open, including those whose clients do not read
	// the answer. While half of them are open, a connection may have at most fewOpen.
	maxOpen, fewOpen = 4096, 16
	// writeTimeout is how long a call may take until its answer has left.
	writeTimeout = 10 * time.Second
)

// errOverload is the error of a call that got no turn.
var errOverload = overloaded()

func overloaded() *connect.Error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("this daemon is asked more than it can decide; retry after 1 s"))
	err.Meta().Set("Retry-After", "1")
	return err
}

// newIntake returns the gate before decisions.
func newIntake() *rpc.Gate { return rpc.NewGate(maxDeciding, maxWaiting, decideWait) }

// turns returns how much of the gate a call of n requests takes.
func turns(n int) int64 { return int64(min(max(n, 1), storeguard.GroupsPerCall)) }

// enter takes a turn to decide n requests, or returns errOverload. After success the caller must
// call leave.
func (s *service) enter(ctx context.Context, n int) error {
	if s.intake == nil || !lateCall(ctx) && s.intake.TryEnter(ctx, turns(n)) == nil {
		return nil
	}
	s.metrics.Overload.Inc()
	if ctx.Err() != nil {
		return rpcCodes.Error(ctx.Err())
	}
	return errOverload
}

func (s *service) leave(n int) {
	if s.intake != nil {
		s.intake.Leave(turns(n))
		s.door.left()
	}
}

// crowdedOut returns the answer to a request over HTTP that got no turn.
func (h *httpCheck) crowdedOut(denyStatus int) httpanswer.Answer {
	d := httpanswer.Decision{Act: httpanswer.Act{RetryAfter: overloadRetry, Problem: httpanswer.ReducedCapacity}}
	return d.Answer(time.Now(), httpanswer.Options{Headers: h.headers, DenyStatus: denyStatus})
}

// tap refuses calls over gRPC beyond maxCallsGRPC before they have a goroutine: thousands of
// goroutines would run before those that talk to the store. Handlers count the calls, so a few more
// may begin at once. Envoy's calls have twice the room, because each rule's own answer to an
// overload is better than an error. Health and streams are not counted.
func (s *service) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	most := int64(maxCallsGRPC)
	switch {
	case strings.HasPrefix(info.FullMethodName, "/"+envoyrls.ServiceName+"/"):
		most *= 2
	case !strings.HasPrefix(info.FullMethodName, "/"+aliquotv1connect.LimiterServiceName+"/"),
		info.FullMethodName == aliquotv1connect.LimiterServiceCheckStreamProcedure:
		return ctx, nil
	}
	if s.calls.Load() >= most || most == maxCallsGRPC && lateCall(ctx) {
		s.metrics.Overload.Inc()
		return ctx, grpcError(errOverload)
	}
	return ctx, nil
}

// lateCalls refuses calls over Connect, of the service at a path, that waited too long until they
// were read. It refuses them before anything is decoded.
func (s *service) lateCalls(path string, next http.Handler) http.Handler {
	refusal, _ := json.Marshal(map[string]string{"code": errOverload.Code().String(), "message": errOverload.Message()}) // of strings alone
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("Content-Type")
		if !lateCall(r.Context()) || !strings.HasPrefix(r.URL.Path, path) || r.ProtoMajor > 1 || kind != "application/json" && kind != "application/proto" {
			next.ServeHTTP(w, r) // to be refused in its own protocol
			return
		}
		s.metrics.Overload.Inc()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(refusal) // an error means that the peer has gone
	})
}

// openCalls counts the open calls over HTTP/2 and refuses further ones, by the status alone, which
// also a client gets that reads no body.
type openCalls struct{ all atomic.Int64 }

// lineCalls counts the open calls of one connection.
type lineCalls struct{ n atomic.Int64 }

// lineCallsKey is the key of the lineCalls in a connection's context.
type lineCallsKey struct{}

// refusedStatus returns 503, but 429 under /check/. Envoy asks there, and may let a request pass
// when the answer is a 5xx.
func refusedStatus(r *http.Request) int {
	if strings.HasPrefix(r.URL.EscapedPath(), checkPath+"/") {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// before counts calls until their stream has closed. Over HTTP/1.1 a connection has one call.
func (o *openCalls) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		line, _ := ctx.Value(lineCallsKey{}).(*lineCalls)
		if r.ProtoMajor < 2 || line == nil {
			next.ServeHTTP(w, r)
			return
		}
		all, here := o.all.Add(1), line.n.Add(1)
		over := func() { o.all.Add(-1); line.n.Add(-1) }
		if all > maxOpen || all > maxOpen/2 && here > fewOpen {
			over()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(refusedStatus(r))
			return
		}
		context.AfterFunc(ctx, over)
		next.ServeHTTP(w, r)
	})
}
