package limits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/rpc"
	"aliquot/internal/sim/compare"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// zipfRate is the rate of all clients together at which none asks for more than its limit. At largerZipfRate a few
	// do.
	zipfRate, largerZipfRate = 500, 1000
	// falseRejections is the part of all requests that may be wrongly denied at zipfRate. At largerZipfRate the part
	// may differ by that much from the simulator's.
	falseRejections = .001
	// zipfConnections is how many idle connections to a region are kept.
	zipfConnections = 64
)

// zipf: many clients, whose rates follow Zipf's law, ask several regions. Hardly any request is denied that one exact
// bucket for the whole world would admit.
func zipf(ctx context.Context, l *e2e.Cluster, _ promise.Scale) ([]promise.Result, error) {
	var out []promise.Result
	for _, rate := range []float64{zipfRate, largerZipfRate} {
		w := compare.AgreedCrowd(rate)
		simulated, err := compare.Run(compare.KindOf("strict"), w, 1)
		if err != nil {
			return nil, err
		}
		got, err := zipfCounts(ctx, l, w)
		if err != nil {
			return nil, err
		}
		admitted := figure{"admitted / by one exact bucket", float64(got.admitted) / float64(got.ideally),
			func(_ compare.Workload, o compare.Outcome) float64 { return o.Utilisation }}
		most := falseRejections
		if rate > zipfRate {
			most += simulated.FalseRejections
		}
		out = append(out, admitted.against(w, simulated), promise.AtMost(
			fmt.Sprintf("%s: denied of %d what that bucket admits (simulated %.5f)", w.Name, got.asked, simulated.FalseRejections),
			float64(got.falsely)/float64(got.asked), most))
	}
	return out, nil
}

// zipfCount counts the clients' requests: all, admitted, admitted by exact buckets, and wrongly denied.
type zipfCount struct{ asked, admitted, ideally, falsely int }

// zipfRun is one run of the clients.
type zipfRun struct {
	regions []aliquotv1connect.LimiterServiceClient
	name    string
	began   time.Time

	mu     sync.Mutex
	ideal  []*compare.Yardstick
	count  zipfCount
	failed error
}

// zipfCounts sends a workload's requests when they are due, and does not wait for answers.
func zipfCounts(ctx context.Context, l *e2e.Cluster, w compare.Workload) (zipfCount, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: zipfConnections}
	defer transport.CloseIdleConnections()
	c := &zipfRun{name: fmt.Sprintf("crowd-%d", time.Now().UnixNano()), began: time.Now()}
	for _, address := range l.RegionAddresses() {
		c.regions = append(c.regions, aliquotv1connect.NewLimiterServiceClient(&http.Client{Transport: transport, Timeout: e2e.CallWithin}, rpc.BaseURL(address)))
	}
	for _, bucket := range w.Keys {
		c.ideal = append(c.ideal, compare.NewYardstick(bucket))
	}
	pick, rate := picker(w.Sources)
	random := rand.New(rand.NewPCG(1, 1))
	var calls sync.WaitGroup
	for due := time.Duration(0); ; {
		due += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if e2e.Pause(ctx, due-time.Since(c.began)); due > w.Length || ctx.Err() != nil {
			break
		}
		source := pick(random)
		calls.Go(func() { c.ask(ctx, source) })
	}
	calls.Wait()
	for _, y := range c.ideal {
		c.count.falsely += y.FalseRejections()
	}
	return c.count, errors.Join(c.failed, ctx.Err())
}

// picker returns a function that picks sources in proportion to their rates, and the sum of the rates.
func picker(sources []compare.Source) (pick func(*rand.Rand) compare.Source, rate float64) {
	upTo := make([]float64, len(sources))
	for i, s := range sources {
		rate += s.Rate
		upTo[i] = rate
	}
	return func(r *rand.Rand) compare.Source {
		at, _ := slices.BinarySearch(upTo, r.Float64()*rate)
		return sources[min(at, len(sources)-1)]
	}, rate
}

// ask sends a request to a region, and to the exact bucket.
func (c *zipfRun) ask(ctx context.Context, s compare.Source) {
	c.mu.Lock()
	ideally := c.ideal[s.Key].Ask(time.Since(c.began))
	c.mu.Unlock()
	answer, err := c.regions[s.Region].Check(ctx, &aliquotv1.CheckRequest{
		Attributes: map[string]string{"plan": "big", "api_key": fmt.Sprintf("%s-%d", c.name, s.Key)},
	})
	admitted := 0
	if answer.GetAllowed() {
		admitted = 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = fmt.Errorf("a check of the crowd in region %d: %w", s.Region, err)
		return
	}
	c.ideal[s.Key].Answered(ideally, admitted)
	c.count.asked++
	c.count.admitted += admitted
	c.count.ideally += ideally
}
