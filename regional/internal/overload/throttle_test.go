package overload

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"aliquot/internal/testmetrics"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/telemetry"
)

const (
	delayedAnswers   = "aliquot_throttled_answers_total"
	endedConnections = "aliquot_throttled_connections_ended_total"
)

// lineContext is the context of a call on a connection that is slowed down.
func lineContext(t *testing.T) (context.Context, *line) {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	l := &line{Addr: near.RemoteAddr(), conn: near}
	return peer.NewContext(t.Context(), &peer.Peer{Addr: l}), l
}

func newThrottle() (*Throttle, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return NewThrottle(1, func(string) bool { return false }, background.Pause, telemetry.New("us", "test", registry), slog.New(slog.DiscardHandler)), registry
}

// While as many answers wait as may, none is added: the connection is told to go, and the log
// whose it was.
func TestTooManyDelayed(t *testing.T) {
	limits, registry := newThrottle()
	var log bytes.Buffer
	limits.log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, l := lineContext(t)
	limits.delayed.Store(mostDelayed)
	for range 3 {
		limits.Answered(ctx, false)
	}
	if !l.ending.Load() || limits.delayed.Load() != mostDelayed || l.delayed.Load() != 0 {
		t.Errorf("ending %v, %d and %d wait", l.ending.Load(), limits.delayed.Load(), l.delayed.Load())
	}
	if n := testmetrics.Counter(t, registry, endedConnections); n != 1 {
		t.Errorf("%v connections ended", n)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "peer=pipe") || !strings.Contains(text, "--trusted-proxies") {
		t.Errorf("the log has:\n%s", text)
	}
	answer := httptest.NewRecorder()
	limits.Before(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", "/check", nil))
	if answer.Header().Get("Connection") != "close" {
		t.Errorf("%v", answer.Header())
	}
	if _, err := limits.Tap(ctx, nil); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// A caller that has no time left, or has gone, does not wait, and every line belongs to a caller.
func TestNobodyWaitsInVain(t *testing.T) {
	limits, registry := newThrottle()
	ctx, l := lineContext(t)
	past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	for range 5 {
		limits.Answered(past, false)
		limits.Answered(t.Context(), false)
	}
	if n := testmetrics.Counter(t, registry, delayedAnswers); n != 0 {
		t.Errorf("%v answers were delayed", n)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	for range 1000 { // each for 100 ms would outlast the test
		limits.Answered(gone, false)
	}
	if n := testmetrics.Counter(t, registry, delayedAnswers); n != 1000 || l.ending.Load() {
		t.Errorf("%v answers", n)
	}
}
