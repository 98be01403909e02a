package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/tap"

	"aliquot/internal/envoyrls"
	"aliquot/internal/httpanswer"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/overload"
)

// Bounds on the work that is under way at once. Reports, /readyz, metrics, and health over gRPC are
// outside of them, so that a daemon with too many calls keeps its lease.
const (
	// maxCallsGRPC caps the calls under way over gRPC: as many as one core decides in 100 ms.
	maxCallsGRPC = 2048
	// maxMessagesGRPC caps the memory of the messages over gRPC that are whole and not answered, in bytes, and
	// maxHeavyWaiting how many wait for room in it, each for heavyWait. A message takes memoryOf times its size.
	maxMessagesGRPC, maxHeavyWaiting, heavyWait = 64 << 20, 16, 2 * time.Second
	memoryOf                                    = 4
	// overloadRetry is the wait that a refused call is told.
	overloadRetry = time.Second
)

// crowdedOut returns the answer to a request over HTTP that got no turn.
func (h *httpCheck) crowdedOut(denyStatus int) httpanswer.Answer {
	d := httpanswer.Decision{Act: httpanswer.Act{RetryAfter: overloadRetry, Problem: httpanswer.ReducedCapacity}}
	return d.Answer(time.Now(), httpanswer.Options{Headers: h.headers, DenyStatus: denyStatus})
}

// tap refuses calls over gRPC beyond maxCallsGRPC before they have a goroutine: thousands of
// goroutines would run before those that talk to the store. Handlers count the calls, so a few more
// may begin at once. Envoy's calls have twice the room, because each rule's own answer to an
// overload is better than an error. Health and streams are not counted.
func (s *Service) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	most := int64(maxCallsGRPC)
	switch {
	case strings.HasPrefix(info.FullMethodName, "/"+envoyrls.ServiceName+"/"):
		most *= 2
	case !strings.HasPrefix(info.FullMethodName, "/"+aliquotv1connect.LimiterServiceName+"/"),
		info.FullMethodName == aliquotv1connect.LimiterServiceCheckStreamProcedure:
		return ctx, nil
	}
	if s.calls.Load() >= most || most == maxCallsGRPC && overload.LateCall(ctx) {
		s.metrics.Overload.Inc()
		return ctx, grpcError(overload.ErrCrowded)
	}
	return ctx, nil
}

// lateCalls refuses calls over Connect, of the service at a path, that waited too long until they
// were read. It refuses them before anything is decoded.
func (s *Service) lateCalls(path string, next http.Handler) http.Handler {
	refusal, _ := json.Marshal(map[string]string{"code": overload.ErrCrowded.Code().String(), "message": overload.ErrCrowded.Message()}) // of strings alone
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		late := overload.LateCall(r.Context()) && strings.HasPrefix(r.URL.Path, path) && r.ProtoMajor == 1
		if kind := first(r.Header, "Content-Type"); !late || kind != "application/json" && kind != "application/proto" {
			next.ServeHTTP(w, r) // which refuses a late one in its own protocol
			return
		}
		s.metrics.Overload.Inc()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(refusal) // an error means that the peer has gone
	})
}

// refusedStatus returns 503, but 429 under /check/. Envoy asks there, and may let a request pass
// when the answer is a 5xx.
func refusedStatus(r *http.Request) int {
	if strings.HasPrefix(r.URL.EscapedPath(), checkPath+"/") {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}
