package background

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPanicsFillNoDisk: a bug that every call meets is logged some times a minute, and
// counted always.
func TestPanicsFillNoDisk(t *testing.T) {
	var log bytes.Buffer
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "panics"})
	p := &Panics{Count: counter, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 180 {
		_ = p.Caught("a call", "a bug")
	}
	lines, counted := strings.Count(log.String(), "\n"), valueOf(t, counter)
	if lines == 0 || lines > 120 || counted != 180 {
		t.Errorf("%d lines, %v counted", lines, counted)
	}
}

// TestBackgroundLoopsThatPanicBeginAgain: a bug in one of the daemon's own loops is told of and counted, and
// the loop goes on a second later; without that the process would end.
func TestBackgroundLoopsThatPanicBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "panics"})
		p := &Panics{Count: counter, Log: slog.New(slog.DiscardHandler)}
		began, times := time.Now(), 0
		p.Keep(t.Context(), "a loop", func(context.Context) {
			if times++; times < 3 {
				panic("a bug")
			}
		})
		if times != 3 || time.Since(began) != 2*keepPause || valueOf(t, counter) != 2 {
			t.Errorf("%d times in %v, %v counted", times, time.Since(began), valueOf(t, counter))
		}
	})
}

// valueOf is the value of a counter.
func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all[0].GetMetric()[0].GetCounter().GetValue()
}
