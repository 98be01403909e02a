package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	exampleRules = "../../deploy/examples/ride-hailing/rules.yaml"
	// exampleRun covers two whole windows of ten seconds, with a change between.
	exampleRun = 24 * time.Second
	// askEvery is how often each client asks; there is one of each stream in each region.
	askEvery = 100 * time.Millisecond
	// inForceWithin is what a change of rules may take, on a machine however slow it is.
	inForceWithin = ReadyWithin
)

// stream is what the clients of one limit ask for, in all regions at once: more than the
// limit allows.
type stream struct {
	rule  string
	attrs map[string]string
	cost  int64
	// capacity and rate a second, of limits that refill, in tokens; or limit in window.
	capacity, rate float64
	limit          int64
	window         time.Duration

	mu  sync.Mutex
	had []spent
	err error
}

// spent is an admission of cost tokens, somewhere between two times of the stores.
type spent struct {
	Admitted
	cost int64
}

func exampleStreams() []*stream {
	return []*stream{
		{rule: "rides-request", attrs: map[string]string{"endpoint": "/rides/request", "method": "POST", "user": "u1"}, cost: 1, capacity: 20, rate: 10},
		{rule: "drivers-location", attrs: map[string]string{"endpoint": "/drivers/location", "city": "c1"}, cost: 150, capacity: 5000, rate: 3000},
		{rule: "trips-history", attrs: map[string]string{"endpoint": "/trips/history", "user": "u1"}, cost: 1, limit: 200, window: 10 * time.Second},
		{rule: "admin-stats", attrs: map[string]string{"endpoint": "/admin/stats"}, cost: 1, limit: 30, window: 10 * time.Second},
		{rule: "free", attrs: map[string]string{"tier": "free", "api_key": "f"}, cost: 1, capacity: 100, rate: 100. / 60},
		{rule: "pro", attrs: map[string]string{"tier": "pro", "api_key": "p"}, cost: 10, capacity: 1000, rate: 1000. / 60},
		{rule: "enterprise", attrs: map[string]string{"tier": "enterprise", "api_key": "e"}, cost: 100, capacity: 10000, rate: 10000. / 60},
	}
}

// TestRideHailing applies the example to three running regions, asks for more than every
// limit in all regions at once, raises a tier and lowers a limit meanwhile, and counts by
// the times of the answers what was admitted. There is no tolerance: an admission counts
// as within a span of time only if it was asked for and answered within it.
func TestRideHailing(t *testing.T) {
	t.Parallel()
	cluster, yaml := startCluster(t, Setup{}, exampleRules)
	streams := exampleStreams()
	for _, s := range streams {
		cluster.awaitLimit(t, s, cmp.Or(s.limit, int64(s.capacity)))
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	var clients sync.WaitGroup
	for _, s := range streams {
		for _, r := range cluster.Regions {
			clients.Go(func() { s.ask(ctx, cluster, r) })
		}
	}
	free, stats := streams[4], streams[3]
	Pause(ctx, exampleRun/4)
	raised := time.Now().UnixMicro()
	putTier(t, cluster, "free", `{"limit":200,"window":60}`)
	cluster.awaitLimit(t, free, 200)
	apply(t, cluster, strings.Replace(strings.Replace(yaml, "limit: 30,", "limit: 12,", 1), "limit: 100,", "limit: 200,", 1))
	cluster.awaitLimit(t, stats, 12)
	lowered := time.Now().UnixMicro()
	Pause(ctx, exampleRun-time.Since(began))
	err := Until(t.Context(), ReadyWithin, "free clients with more than before their tier was raised", func() error {
		if n, before := free.admissions(), 100+time.Since(began).Seconds()*100/60; float64(n) <= before {
			return fmt.Errorf("%d, before %.0f", n, before)
		}
		return nil
	})
	stop()
	clients.Wait()
	if err != nil {
		t.Error(err)
	}

	for _, s := range streams {
		if s.err != nil {
			t.Fatalf("%s: %v", s.rule, s.err)
		}
		t.Logf("%s: %d admissions of %d", s.rule, len(s.had), s.cost)
		if len(s.had) == 0 {
			t.Errorf("%s admitted nothing", s.rule)
		}
	}
	free.bounded(t, 100, 100./60, 0, raised)
	free.bounded(t, 200, 200./60, 0, time.Now().UnixMicro())
	for _, s := range streams {
		switch {
		case s == free:
		case s.window > 0:
			s.counted(t, s.limit, 0)
		default:
			s.bounded(t, s.capacity, s.rate, 0, time.Now().UnixMicro())
		}
	}
	stats.counted(t, 12, lowered)
}

// admissions is how many there were so far.
func (s *stream) admissions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.had)
}

// ask is one client in one region.
func (s *stream) ask(ctx context.Context, l *Cluster, r *Region) {
	client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
	in := &aliquotv1.CheckRequest{Attributes: s.attrs, Cost: &s.cost}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		answer, err := client.Check(context.WithoutCancel(ctx), in)
		at := l.Counted(asked)
		s.mu.Lock()
		switch {
		case err != nil:
			s.err = err
		case answer.GetRuleId() != s.rule:
			s.err = fmt.Errorf("rule %q decided, mode %s", answer.GetRuleId(), answer.GetMode())
		case answer.GetAllowed():
			s.had = append(s.had, spent{at, s.cost})
		}
		s.mu.Unlock()
	}
}

// bounded looks that between any two times, of those from the first to the last given,
// no more was admitted than a full bucket and what flows in.
func (s *stream) bounded(t *testing.T, capacity, rate float64, first, last int64) {
	t.Helper()
	slices.SortFunc(s.had, func(a, b spent) int { return cmp.Compare(a.To, b.To) })
	for _, begin := range s.had {
		if begin.From < first {
			continue
		}
		sum := int64(0)
		for _, e := range s.had {
			if e.From < begin.From || e.To > last {
				continue
			}
			sum += e.cost
			seconds := float64(e.To-begin.From) / 1e6
			if most := capacity + rate*seconds; float64(sum) > most {
				t.Errorf("%s: %d within %.6f s; at most %.3f", s.rule, sum, seconds, most)
				return
			}
		}
	}
}

// counted looks at each window of the stores' clock that began after a time.
func (s *stream) counted(t *testing.T, limit, after int64) {
	t.Helper()
	windows := map[int64]int64{}
	for _, e := range s.had {
		if k := e.From / s.window.Microseconds(); e.To/s.window.Microseconds() == k && k*s.window.Microseconds() >= after {
			windows[k] += e.cost
		}
	}
	if len(windows) == 0 {
		t.Errorf("%s: nothing was admitted in a window that began after the change", s.rule)
	}
	for k, n := range windows {
		t.Logf("%s: %d in window %d", s.rule, n, k)
		if n > limit {
			t.Errorf("%s: %d in one window; at most %d", s.rule, n, limit)
		}
	}
}

func apply(t *testing.T, l *Cluster, yaml string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), CallWithin)
	defer cancel()
	client := aliquotv1connect.NewRuleServiceClient(l.HTTP, rpc.BaseURL(l.Coordinators[0].Address))
	err := WhenLed(ctx, func() error {
		_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func putTier(t *testing.T, l *Cluster, tier, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), CallWithin)
	defer cancel()
	err := WhenLed(ctx, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, rpc.BaseURL(l.Coordinators[1].Address)+"/rules/tier/"+tier, strings.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := l.HTTP.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("PUT /rules/tier/%s: %s: %s", tier, answer.Status, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitLimit waits until every region decides by a limit, as a client of its own is told.
func (l *Cluster) awaitLimit(t *testing.T, s *stream, limit int64) {
	t.Helper()
	probe := maps.Clone(s.attrs)
	for _, who := range []string{"user", "city", "api_key"} {
		if probe[who] != "" {
			probe[who] = "probe"
		}
	}
	for _, r := range l.Regions {
		client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
		err := Until(t.Context(), inForceWithin, r.Name+" deciding by "+s.rule, func() error {
			answer, err := client.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: probe})
			if err == nil && (answer.GetRuleId() != s.rule || answer.GetLimit() != limit) {
				err = fmt.Errorf("rule %q with limit %d", answer.GetRuleId(), answer.GetLimit())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
