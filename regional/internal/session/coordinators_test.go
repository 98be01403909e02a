package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/telemetry"
)

// TestAStopIsNoFailureOfCoordinators: a call that ends because the daemon does says nothing
// of the coordinator that was asked, in the log or elsewhere.
func TestAStopIsNoFailureOfCoordinators(t *testing.T) {
	asked, leave := make(chan struct{}), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-leave
	}))
	defer silent.Close()
	defer close(leave)
	var log bytes.Buffer
	c := newCoordinators([]string{silent.URL, silent.URL}, silent.Client(), slog.New(slog.NewTextHandler(&log, nil)),
		telemetry.New("us", "test", prometheus.NewRegistry()))
	before := c.current
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.report(ctx, &aliquotv1.ReportRequest{})
		failed <- err
	}()
	<-asked
	stop()
	if err := <-failed; err != context.Canceled {
		t.Errorf("%v", err)
	}
	if c.failures != 0 || c.current != before || log.Len() > 0 {
		t.Errorf("%d failures; the log has:\n%s", c.failures, log.String())
	}
}

// TestALargeHelloGetsLonger once nobody has answered it: else one that takes longer than
// its deadline is said for ever.
func TestALargeHelloGetsLonger(t *testing.T) {
	c := newCoordinators([]string{"127.0.0.1:1", "127.0.0.1:2"}, http.DefaultClient, slog.New(slog.DiscardHandler),
		telemetry.New("us", "test", prometheus.NewRegistry()))
	for _, is := range []struct {
		failures, keys int
		want           time.Duration
	}{
		{0, 200_000, helloDeadline},
		{1, 200_000, helloDeadline}, // the next coordinator may be quicker
		{2, 200_000, helloDeadline + 20*time.Second},
		{3, 10, helloDeadline + time.Millisecond},
		{3, 0, helloDeadline},
		{4, 200_000, helloDeadline}, // and so it is for one that needs no longer
		{7, 200_000, helloDeadline + 20*time.Second},
	} {
		c.failures = is.failures
		if got := c.helloWithin(is.keys); got != is.want {
			t.Errorf("after %d failures a Hello of %d keys has %v, want %v", is.failures, is.keys, got, is.want)
		}
	}
}

// TestAHelloIsWordedWhenItLeaves, however long it waited for its turn.
func TestAHelloIsWordedWhenItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &lastHello{}
		s := newTestSession(t, leader)
		s.peers.failures = 1000
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.hello(t.Context(), budget.Hello{})
		}()
		synctest.Wait()
		if leader.heard != nil {
			t.Fatal("it did not wait for its turn")
		}
		s.setRules(t, oneRule, "r0")
		<-done
		if got := leader.heard.GetRulesVersion(); got != 7 {
			t.Errorf("it tells of rules of version %d, in force are those of version 7", got)
		}
	})
}

// TestARefusalIsToldUntilTheNextWord: a leader that refused a region, and is heard no more, may
// have taken it in since.
func TestARefusalIsToldUntilTheNextWord(t *testing.T) {
	c := newCoordinators([]string{"127.0.0.1:1"}, http.DefaultClient, slog.New(slog.DiscardHandler), telemetry.New("us", "test", prometheus.NewRegistry()))
	undeclared := connect.NewError(connect.CodePermissionDenied, errors.New("undeclared region"))
	for range 2 {
		c.outcome("hello", 0, "refused", undeclared)
		if c.refusal() != undeclared.Error() {
			t.Errorf("refused: %q", c.refusal())
		}
		c.outcome("hello", 0, "failed", connect.NewError(connect.CodeUnavailable, errors.New("no leader")))
		if c.refusal() != "" {
			t.Errorf("with no leader to ask: %q", c.refusal())
		}
	}
}
