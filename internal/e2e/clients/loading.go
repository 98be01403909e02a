// Package clients has the clients of a cluster of processes. They ask for more than their limits, and count what they
// get.
package clients

import (
	"context"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
)

// Bucket is the width of the time series that outages are read from.
const Bucket = 100 * time.Millisecond

// BigLoad returns the configuration of a client of the big limit that asks all regions in turn, for d.
func BigLoad(l *e2e.Cluster, d time.Duration) bench.Config {
	c := bench.DefaultConfig()
	c.Regions, c.Duration, c.Limit, c.Bucket = l.RegionAddresses(), d, e2e.Big, Bucket
	c.Attributes = map[string]string{"plan": "big", "api_key": "bench-{run}-{client}"}
	return c
}

// Loading is a run in the background.
type Loading struct {
	Began  time.Time
	Done   chan struct{}
	report *bench.Report
	err    error
}

// Begin begins a run in the background.
func Begin(ctx context.Context, c bench.Config) *Loading {
	r := &Loading{Began: time.Now(), Done: make(chan struct{})}
	go func() {
		defer close(r.Done)
		r.report, r.err = bench.Rotate(ctx, c)
	}()
	return r
}

// Wait returns the report when the run is over.
func (r *Loading) Wait() (*bench.Report, error) {
	<-r.Done
	return r.report, r.err
}

// At returns the time since the run began.
func (r *Loading) At() time.Duration { return time.Since(r.Began) }

// AdmittedBetween returns what was admitted between two times of a run.
func AdmittedBetween(series []bench.Bucket, from, to time.Duration) (n int64) {
	for i := max(int(from/Bucket), 0); i < min(int(to/Bucket), len(series)); i++ {
		n += series[i].Admitted
	}
	return n
}

// greedyBy is how many times the rate of its limit Paced asks for.
const greedyBy = 5

// Paced is BigLoad at a few times the rate of the limit. A client that asks as fast as it can would use all of the
// processor that other load leaves.
func Paced(l *e2e.Cluster, d time.Duration) bench.Config {
	c := BigLoad(l, d)
	c.Rate = greedyBy * e2e.Big.Refill
	return c
}
