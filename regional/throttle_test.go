package regional

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"aliquot/internal/testmetrics"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	delayedAnswers   = "aliquot_throttled_answers_total"
	endedConnections = "aliquot_throttled_connections_ended_total"
)

// throttledConfig slows down connections of this machine after three denials in a row.
func throttledConfig(coordinator string) Config {
	c := testConfig(coordinator)
	c.ThrottleAfter = 3
	c.Identity.TrustedProxies = []string{"192.0.2.0/24"}
	return c
}

func checkOf(apiKey string) *aliquotv1.CheckRequest {
	return &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": apiKey}}
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// Over each protocol: what is denied after the third denial in a row is delayed, until one
// is admitted; a batch counts as admitted if any of it is.
func TestConnectionsThatHearOnlyDenials(t *testing.T) {
	for name, dial := range map[string]func(*testing.T, *Daemon) (aliquotv1connect.LimiterServiceClient, aliquotv1.LimiterServiceClient){
		"HTTP/1.1": func(_ *testing.T, d *Daemon) (aliquotv1connect.LimiterServiceClient, aliquotv1.LimiterServiceClient) {
			return aliquotv1connect.NewLimiterServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+d.Addr()), nil
		},
		"HTTP/2": func(_ *testing.T, d *Daemon) (aliquotv1connect.LimiterServiceClient, aliquotv1.LimiterServiceClient) {
			return aliquotv1connect.NewLimiterServiceClient(h2c(), "http://"+d.Addr()), nil
		},
		"gRPC": func(t *testing.T, d *Daemon) (aliquotv1connect.LimiterServiceClient, aliquotv1.LimiterServiceClient) {
			return nil, aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := startLive(t, throttledConfig(newLeader(t, manyRules).address()))
			http, rpc := dial(t, d)
			one := func(apiKey string) {
				t.Helper()
				var err error
				if rpc != nil {
					_, err = rpc.Check(t.Context(), checkOf(apiKey))
				} else {
					_, err = http.Check(t.Context(), checkOf(apiKey))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			batch := func(apiKeys ...string) {
				t.Helper()
				in := &aliquotv1.CheckBatchRequest{}
				for _, k := range apiKeys {
					in.Requests = append(in.Requests, checkOf(k))
				}
				var err error
				if rpc != nil {
					_, err = rpc.CheckBatch(t.Context(), in)
				} else {
					_, err = http.CheckBatch(t.Context(), in)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for step, c := range []struct {
				do   func()
				want int
			}{
				{func() { one("bad_1"); one("bad_1"); batch("bad_1", "bad_2") }, 0},
				{func() { one("bad_1") }, 1},
				{func() { batch("bad_1") }, 2},
				{func() { one("in_1") }, 2}, // whitelisted
				{func() { one("bad_1"); one("bad_1"); one("bad_1") }, 2},
				{func() { batch("bad_1", "in_1", "bad_2") }, 2},
				{func() { one("bad_1"); one("bad_1"); one("bad_1") }, 2},
				{func() { one("bad_1") }, 3},
			} {
				c.do()
				if got := testmetrics.Counter(t, d.registry, delayedAnswers); got != float64(c.want) {
					t.Fatalf("step %d: %v answers were delayed, want %d", step, got, c.want)
				}
			}
		})
	}
}

// Trusted proxies, this machine by default, and a setting of 0 leave connections alone.
func TestConnectionsThatAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"this machine": func(c *Config) { c.Identity = DefaultConfig().Identity },
		"off":          func(c *Config) { c.ThrottleAfter = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			c := throttledConfig(newLeader(t, manyRules).address())
			change(&c)
			d, _ := startLive(t, c)
			for range 10 {
				if _, err := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).Check(t.Context(), checkOf("bad_1")); err != nil {
					t.Fatal(err)
				}
				check(t, d, "bad_1")
			}
			if n := testmetrics.Counter(t, d.registry, delayedAnswers); n != 0 {
				t.Errorf("%v answers were delayed", n)
			}
		})
	}
}

// A connection of which too many answers are delayed is ended, in order: a call is
// refused before anything is decided, or answered; and the next connection begins from nothing.
func TestConnectionsAreEnded(t *testing.T) {
	full := make(chan struct{}) // until then no answer that is delayed leaves, however slow the machine is
	c := throttledConfig(newLeader(t, manyRules).address())
	c.pause = func(ctx context.Context, _ time.Duration) bool {
		select {
		case <-full:
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
	d, _ := startLive(t, c)
	client := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
	ctx, cancel := context.WithTimeout(t.Context(), pollFor)
	defer cancel()
	stalled := stalls(t)
	var callers sync.WaitGroup
	for range 2 * 64 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, err := client.Check(ctx, checkOf("bad_1"))
				if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "nothing but denials") {
					cancel()
				} else if err != nil && ctx.Err() == nil {
					if stalled() < time.Second/2 { // half of the time that answers under way have
						t.Errorf("%v", err)
					}
					cancel()
				}
			}
		})
	}
	polled(func() bool { return testmetrics.Counter(t, d.registry, endedConnections) > 0 })
	close(full)
	callers.Wait()
	if n := testmetrics.Counter(t, d.registry, endedConnections); n < 1 {
		t.Errorf("%v connections were ended", n)
	}
	eventually(t, "another connection serves", func() bool {
		_, err := client.Check(t.Context(), checkOf("in_1"))
		return err == nil
	})
}
