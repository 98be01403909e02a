package bench

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"aliquot/internal/testaddr"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// bucket is an exact token bucket for each api_key, served as a region's daemon
// would: shared by all regions it is an ideal global limiter, one in each region
// it is a limiter that lets rotation multiply.
type bucket struct {
	aliquotv1connect.UnimplementedLimiterServiceHandler

	limit Limit
	mu    sync.Mutex
	state map[string]*level
	asked map[string]int
}

type level struct {
	tokens float64
	at     time.Time
}

func newBucket(l Limit) *bucket {
	return &bucket{limit: l, state: map[string]*level{}, asked: map[string]int{}}
}

func (b *bucket) Check(_ context.Context, r *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, now := r.Attributes["api_key"], time.Now()
	s, ok := b.state[key]
	if !ok {
		s = &level{tokens: b.limit.Capacity, at: now}
		b.state[key] = s
	}
	s.tokens = min(b.limit.Capacity, s.tokens+b.limit.Refill*now.Sub(s.at).Seconds())
	s.at = now
	b.asked[key]++
	allowed := s.tokens >= 1
	if allowed {
		s.tokens--
	}
	return &aliquotv1.CheckResponse{Allowed: allowed, RuleId: "r", Mode: "store", Limit: int64(b.limit.Capacity)}, nil
}

func (b *bucket) CheckBatch(ctx context.Context, r *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	out := &aliquotv1.CheckBatchResponse{}
	for _, one := range r.Requests {
		answer, _ := b.Check(ctx, one)
		out.Results = append(out.Results, &aliquotv1.CheckBatchResult{Response: answer})
	}
	return out, nil
}

// ruleBook serves GetRules alone.
type ruleBook struct {
	aliquotv1connect.UnimplementedRuleServiceHandler
	limit Limit
}

func (b ruleBook) GetRules(context.Context, *aliquotv1.GetRulesRequest) (*aliquotv1.GetRulesResponse, error) {
	return &aliquotv1.GetRulesResponse{Version: 1, Yaml: fmt.Sprintf(
		"rules: [{id: r, enforcement: strict, params: {capacity: 7, refill_rate: 7}, override: {'bench-*': {capacity: %v, refill_rate: %v}}}]",
		b.limit.Capacity, b.limit.Refill)}, nil
}

// limiter is a bucket as grpc-go wants it.
type limiter struct {
	aliquotv1.UnimplementedLimiterServiceServer
	b *bucket
}

func (l limiter) Check(ctx context.Context, r *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	return l.b.Check(ctx, r)
}

func (l limiter) CheckBatch(ctx context.Context, r *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	return l.b.CheckBatch(ctx, r)
}

func serve(t *testing.T, b *bucket) string {
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewLimiterServiceHandler(b))
	mux.Handle(aliquotv1connect.NewRuleServiceHandler(ruleBook{limit: b.limit}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func short(limit Limit, regions ...string) Config {
	c := DefaultConfig()
	c.Regions, c.Duration, c.Limit, c.Bucket = regions, 1500*time.Millisecond, limit, 100*time.Millisecond
	c.Timeout = 5 * time.Minute // of a machine that may be far behind
	return c
}

// callTime is how long every call to a limiter of a bubble takes.
const callTime = time.Millisecond

// over is a short load on limiters of this process. In a bubble it measures the same on every machine.
func over(limit Limit, limiters ...*bucket) Config {
	c := short(limit)
	for i := range limiters {
		c.Regions = append(c.Regions, strconv.Itoa(i))
	}
	c.dial = func(_ *Config, address string) (*target, error) {
		i, err := strconv.Atoi(address)
		if err != nil {
			return nil, err
		}
		return &target{
			address: address,
			check: func(ctx context.Context, r *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
				<-time.After(callTime)
				return limiters[i].Check(ctx, r)
			},
			batch: func(ctx context.Context, r *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
				<-time.After(callTime)
				return limiters[i].CheckBatch(ctx, r)
			},
			close: func() {},
		}, nil
	}
	return c
}

func mustRotate(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Rotate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnIdealGlobalLimiterHasGainAndUtilisationOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Capacity: 100, Refill: 100}
		one := newBucket(limit)
		c := over(limit, one, one, one)
		c.Batch = 10
		r := mustRotate(t, c)
		if r.Exceeded() {
			t.Errorf("gain %v, worst %+v", r.Gain, r.Worst)
		}
		addsUp(t, r)
		if r.Utilisation.Min < .99 || r.Steady.Min < .95 || len(r.Series) < 15 {
			t.Errorf("utilisation %+v, steady %+v, a series of %d", r.Utilisation, r.Steady, len(r.Series))
		}
	})
}

// TestOverTheNetwork: the limit is the coordinator's, and each protocol brings back what the limiter decides.
func TestOverTheNetwork(t *testing.T) {
	limit := Limit{Capacity: 100, Refill: 100}
	one := serve(t, newBucket(limit))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	aliquotv1.RegisterLimiterServiceServer(s, limiter{b: newBucket(limit)})
	go s.Serve(l)
	defer s.Stop()
	for protocol, address := range map[Protocol]string{Connect: one, GRPC: l.Addr().String()} {
		for _, batch := range []int{1, 3} {
			c := short(Limit{}, address)
			c.Coordinator, c.Protocol, c.Batch, c.Duration = one, protocol, batch, 100*time.Millisecond
			r := mustRotate(t, c)
			if r.Limit != limit {
				t.Errorf("%s: the limit asked for is %+v", protocol, r.Limit)
			}
			if r.Exceeded() || r.Admitted == 0 {
				t.Errorf("%s: %d admitted, gain %v, worst %+v", protocol, r.Admitted, r.Gain, r.Worst)
			}
			addsUp(t, r)
		}
	}
}

// addsUp: what a report of an ideal limiter says in several ways is the same.
func addsUp(t *testing.T, r *Report) {
	t.Helper()
	if r.Failed != 0 || r.Offered != r.Admitted+r.Denied || r.Modes["store"] != r.Offered {
		t.Errorf("failed %d, offered %d, admitted %d, denied %d, modes %v", r.Failed, r.Offered, r.Admitted, r.Denied, r.Modes)
	}
	var series int64
	for _, b := range r.Series {
		series += b.Admitted
	}
	if series != r.Admitted {
		t.Errorf("the series of %d buckets adds up to %d of %d", len(r.Series), series, r.Admitted)
	}
}

func TestALimiterPerRegionIsCaught(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Capacity: 30, Refill: 10}
		r := mustRotate(t, over(limit, newBucket(limit), newBucket(limit), newBucket(limit)))
		if !r.Exceeded() || r.Gain < 2.9 || r.Worst.Gain < r.Gain {
			t.Errorf("gain %v, worst %+v", r.Gain, r.Worst)
		}
	})
}

func TestManyPacedClientsInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 500
		limit := Limit{Capacity: 2, Refill: 5}
		b := newBucket(limit)
		c := over(limit, b, b)
		c.Clients, c.Batch, c.Rate = clients, clients/10, 10
		r := mustRotate(t, c)
		if len(b.asked) != clients || r.Failed > 0 {
			t.Fatalf("%d clients of %d were seen, %d failed", len(b.asked), clients, r.Failed)
		}
		if perClient := float64(r.Offered) / clients; perClient < 14 || perClient > 16 {
			t.Errorf("%.1f requests a client in 1.5 s at 10/s", perClient)
		}
		if r.Exceeded() || r.Utilisation.Min < .9 {
			t.Errorf("gain %v, worst %+v, utilisation %+v", r.Gain, r.Worst, r.Utilisation)
		}
	})
}

func TestPatterns(t *testing.T) {
	limit := Limit{Capacity: 1e6, Refill: 1}
	for _, c := range []struct {
		pattern Pattern
		batch   int
		used    int // regions that got anything
	}{{RoundRobin, 1, 3}, {RoundRobin, 7, 3}, {Random, 1, 3}, {Stay, 1, 1}, {Stay, 7, 1}, {Dwell, 1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			config := over(limit, newBucket(limit), newBucket(limit), newBucket(limit))
			config.Pattern, config.Dwell, config.Batch, config.Rate = c.pattern, 200*time.Millisecond, c.batch, 1000
			config.Duration = 350 * time.Millisecond
			r, used := mustRotate(t, config), 0
			for _, region := range r.Regions {
				if region.Offered > 0 {
					used++
				}
			}
			if used != c.used {
				t.Errorf("%s in calls of %d: %d regions were used, want %d: %+v", c.pattern, c.batch, used, c.used, r.Regions)
			}
		})
	}
}

func TestAClientThatRestsBurstsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Capacity: 2, Refill: 5}
		c := over(limit, newBucket(limit))
		c.Rest = 400 * time.Millisecond
		r := mustRotate(t, c)
		// It earns its burst again in a rest, so resting costs nothing but requests.
		if r.Rests < 3 || r.Rests > 4 || r.Exceeded() || r.Offered > 30*r.Admitted || r.Utilisation.Min < .8 {
			t.Errorf("admitted %d of %d in %d rests, gain %v, utilisation %+v", r.Admitted, r.Offered, r.Rests, r.Gain, r.Utilisation)
		}
		if r.Excess > 0 || r.Excess < -1 {
			t.Errorf("excess %v; the first burst was all of C", r.Excess)
		}
	})
}

// Two runs of one client at once, each at a limiter of its own: neither exceeds,
// both together do.
func TestRunsAreJudgedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Capacity: 30, Refill: 10}
		runs, reports := []Config{over(limit, newBucket(limit)), over(limit, newBucket(limit))}, make([]*Report, 2)
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() { reports[i], _ = Rotate(t.Context(), runs[i]) })
		}
		all.Wait()
		alone, both := reports[0], Together(reports[0], reports[1])
		if alone.Exceeded() || reports[1].Exceeded() {
			t.Fatalf("gains %v and %v", alone.Gain, reports[1].Gain)
		}
		if both.Admitted != alone.Admitted+reports[1].Admitted {
			t.Errorf("%d admitted, %d by one and %d by the other", both.Admitted, alone.Admitted, reports[1].Admitted)
		}
		if again := Together(alone); again.Gain != alone.Gain || again.Worst != alone.Worst || again.Offered != alone.Offered {
			t.Errorf("a run by itself: %+v, as it was: %+v", again, alone)
		}
		later := *reports[1]
		later.start = later.start.Add(time.Minute)
		for _, apart := range []*Report{Together(alone, &later), Together(&later, alone)} {
			if apart.Exceeded() || apart.Duration < time.Minute {
				t.Errorf("a minute apart: gain %v in %v", apart.Gain, apart.Duration)
			}
		}
		if !both.Exceeded() || both.Gain < 1.8 || both.Excess < 25 {
			t.Errorf("gain %v, excess %v, %d admitted", both.Gain, both.Excess, both.Admitted)
		}
	})
}

func TestARegionThatIsDownIsCountedByKind(t *testing.T) {
	limit := Limit{Capacity: 30, Refill: 100}
	l, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, p := range []Protocol{Connect, GRPC} {
		c := short(limit, l.Addr().String())
		c.Duration, c.Protocol = 100*time.Millisecond, p
		r := mustRotate(t, c)
		if r.Failed == 0 || r.Offered != 0 || r.Regions[0].Failed != r.Failed {
			t.Errorf("%s: %+v", p, r)
		}
		if p == Connect && r.Errors["connection refused"] != r.Failed {
			t.Errorf("kinds %v", r.Errors)
		}
		if math.IsNaN(r.Gain) || r.Gain != 0 {
			t.Errorf("gain %v", r.Gain)
		}
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for flag, spoil := range map[string]func(*Config){
		"--regions":     func(c *Config) { c.Regions = nil },
		"--clients":     func(c *Config) { c.Clients = 0 },
		"--duration":    func(c *Config) { c.Duration = -1 },
		"--rate":        func(c *Config) { c.Rate = -1 },
		"--pattern":     func(c *Config) { c.Pattern = "zigzag" },
		"--dwell":       func(c *Config) { c.Pattern, c.Dwell = Dwell, 0 },
		"--protocol":    func(c *Config) { c.Protocol = "smtp" },
		"--batch":       func(c *Config) { c.Batch = 1001 },
		"--workers":     func(c *Config) { c.Workers = -1 },
		"--rest":        func(c *Config) { c.Rest, c.Batch = time.Second, 2 },
		"--bucket":      func(c *Config) { c.Bucket = 1 },
		"--timeout":     func(c *Config) { c.Timeout = 0 },
		"--capacity":    func(c *Config) { c.Coordinator = "" },
		"--enforcement": func(c *Config) { c.Enforcement = "elastic" }, // without a limit
		"gentle":        func(c *Config) { c.Limit, c.Enforcement = Limit{Capacity: 1, Refill: 1}, "gentle" },
		"--attr":        func(c *Config) { c.Clients, c.Attributes = 2, map[string]string{"api_key": "k"} },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateOfAComparisonNamesTheFlag(t *testing.T) {
	valid := func() CompareConfig {
		c := CompareConfig{Config: DefaultConfig(), Enforcements: []string{"strict", "elastic"}}
		c.Limit = Limit{Capacity: 1, Refill: 1}
		return c
	}
	for says, spoil := range map[string]func(*CompareConfig){
		"at least one of": func(c *CompareConfig) { c.Enforcements = nil },
		"gentle":          func(c *CompareConfig) { c.Enforcements = []string{"gentle"} },
		"strict twice":    func(c *CompareConfig) { c.Enforcements = []string{"strict", "strict"} },
		"--capacity":      func(c *CompareConfig) { c.Limit = Limit{} },
		"--coordinator":   func(c *CompareConfig) { c.Coordinator = "" },
		"--attr":          func(c *CompareConfig) { c.Attributes = map[string]string{"user": "u"} },
		"--enforcement":   func(c *CompareConfig) { c.Enforcement = "strict" },
		"--clients":       func(c *CompareConfig) { c.Clients = 0 },
	} {
		c := valid()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := valid().Validate(); err != nil {
		t.Error(err)
	}
}
