package storeguard

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/telemetry"
)

// timelyStore answers each call after a time.
type timelyStore struct {
	Store
	takes time.Duration
}

func (s *timelyStore) Take(context.Context, string, []lua.Group) ([]lua.Result, int64, error) {
	<-time.After(s.takes) // of the bubble's clock
	return nil, 1, nil
}

// TestALateStoreIsDown: each answer of a store comes a little later than its callers wait. From the second caller on who is
// answered without it, a second after the first, it is down; the first answer in time, to a check or to the daemon's own call,
// ends that. Many callers who give up at one moment are none of it.
func TestALateStoreIsDown(t *testing.T) {
	const late = CallerPatience + time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &timelyStore{takes: time.Millisecond}
		down, reason := false, ""
		g := New(Config{
			Store: s, Observer: unseen{}, Metrics: telemetry.New("us", "test", prometheus.NewRegistry()),
			Now:     func() budget.Instant { return 100*second + budget.Instant(time.Since(began)) },
			Changed: func(now bool, cause error) { down, reason = now, Reason(cause) }, Failed: func() {},
		})
		b := &Batcher{Refused: g.GaveUp, Send: func(ctx context.Context, _ []*charge.Transaction) error {
			_, _, err := g.Take(ctx, "", noGroups)
			return err
		}}
		decide := g.WhileClosed(b.Decide)
		check := func(takes time.Duration, want bool) {
			t.Helper()
			s.takes = takes
			err := decide(t.Context(), []*charge.Transaction{{}})
			if (err != nil) != (takes == late) || down != want || want && reason != "stall" {
				t.Errorf("after %v: %v, down %t for %q, want %t", time.Since(began), err, down, reason, want)
			}
			<-time.After(time.Second) // of the bubble's clock
		}
		check(time.Millisecond, false)
		check(late, false)
		check(time.Millisecond, false)
		check(late, false)
		check(late, true)
		check(late, true)
		check(time.Millisecond, false)
		check(late, false)
		check(late, true)
		s.takes = late
		if _, _, err := g.TakeAs(t.Context(), OpProbe, "", noGroups); err != nil || !down {
			t.Errorf("%v, down %t: no caller would have waited for that answer", err, down)
		}
		s.takes = CallerPatience
		if _, _, err := g.TakeAs(t.Context(), OpProbe, "", noGroups); err != nil || down {
			t.Errorf("%v, down %t after an answer in time", err, down)
		}
		s.takes = Deadline
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _ = decide(t.Context(), []*charge.Transaction{{}}) })
		}
		if all.Wait(); down {
			t.Error("down by one moment")
		}
		<-time.After(time.Second) // of the bubble's clock: no call is under way any more
	})
}
