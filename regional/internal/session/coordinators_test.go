package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
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

// lastWords is a coordinator that answers each report with the next of its errors, and with none once these are used up.
type lastWords struct {
	aliquotv1connect.LeaseServiceClient
	errs  []error
	asked int
}

// Report returns the coordinator's next error.
func (l *lastWords) Report(context.Context, *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	l.asked++
	if l.asked <= len(l.errs) {
		return nil, l.errs[l.asked-1]
	}
	return &aliquotv1.ReportResponse{}, nil
}

// TestTheLastWordReachesACoordinator: a daemon that stops goes on to the next coordinator where one fails. It tries them
// again only for a place, and until the leader has answered.
func TestTheLastWordReachesACoordinator(t *testing.T) {
	down := connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
	refused := connect.NewError(connect.CodeFailedPrecondition, errors.New("the place is not kept"))
	for name, is := range map[string]struct {
		place         uint64
		first, second []error
		asked         [2]int
		want          error
	}{
		"the first answers":          {asked: [2]int{1, 0}},
		"the first is down":          {first: []error{down}, asked: [2]int{1, 1}},
		"both are down":              {first: []error{down}, second: []error{down}, asked: [2]int{1, 1}, want: down},
		"both are down for a moment": {place: 7, first: []error{down, down}, second: []error{down}, asked: [2]int{2, 2}},
		"the leader refuses":         {place: 7, first: []error{refused}, asked: [2]int{1, 0}, want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				first, second := &lastWords{errs: is.first}, &lastWords{errs: is.second}
				c := &coordinators{clients: []aliquotv1connect.LeaseServiceClient{first, second}}
				err := c.leave(ctx, &aliquotv1.ReportRequest{Leaving: true, Place: is.place})
				if asked := [2]int{first.asked, second.asked}; err != is.want || asked != is.asked {
					t.Errorf("asked %v times, want %v; %v, want %v", asked, is.asked, err, is.want)
				}
			})
		})
	}
}

// TestTheLastWordIsSaidUntilItsTimeIsOver: a place is asked for once at the start, and again after each pause.
func TestTheLastWordIsSaidUntilItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*leavePause+1)
		defer cancel()
		down := connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
		leader := &lastWords{errs: slices.Repeat([]error{down}, 100)}
		c := &coordinators{clients: []aliquotv1connect.LeaseServiceClient{leader}}
		if err := c.leave(ctx, &aliquotv1.ReportRequest{Leaving: true, Place: 7}); err != down || leader.asked != 4 {
			t.Errorf("asked %d times, want 4; %v", leader.asked, err)
		}
	})
}
