package regional

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestAStopIsNoFailureOfCoordinators: a call that ends because the daemon does says nothing
// of whoever was asked, in the log or elsewhere.
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
		newMetrics("us", "test", prometheus.NewRegistry()))
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
