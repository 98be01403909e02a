package e2e

import (
	"context"
	"time"

	"aliquot/internal/bench"
)

// The limits of RulesYAML and the protocol's static numbers in the cluster.
var (
	big   = bench.Limit{Capacity: 300, Refill: 100}
	small = bench.Limit{Capacity: 60, Refill: 2}
)

const (
	// lease is T, floor one region's part when it is cut off.
	lease = 10 * time.Second
	floor = 1. / 3
	// convergence is what a region may take to get its budget back after it was
	// away, with the WAN's distances left out.
	convergence = 2 * time.Second
	// bucket is the width of the time series that outages are read from.
	bucket = 100 * time.Millisecond
)

// floorAfter is 2T(1+rho)^3: how long a region that heard nothing waits before it
// takes its floor back.
const floorAfter = time.Duration(2 * float64(lease) * 1.02 * 1.02 * 1.02)

// load is the configuration of a run under the big limit.
func (l *Cluster) load(d time.Duration) bench.Config {
	c := bench.DefaultConfig()
	c.Regions, c.Duration, c.Limit, c.Bucket = l.RegionAddresses(), d, big, bucket
	c.Attributes = map[string]string{"plan": "big", "api_key": "bench-{run}-{client}"}
	return c
}

// loading is a run in the background.
type loading struct {
	began  time.Time
	done   chan struct{}
	report *bench.Report
	err    error
}

func begin(ctx context.Context, c bench.Config) *loading {
	r := &loading{began: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.report, r.err = bench.Rotate(ctx, c)
	}()
	return r
}

// wait returns the report when the run is over.
func (r *loading) wait() (*bench.Report, error) {
	<-r.done
	return r.report, r.err
}

// at is the present moment on the run's own time line.
func (r *loading) at() time.Duration { return time.Since(r.began) }

// admittedBetween adds up a time series.
func admittedBetween(series []bench.Bucket, from, to time.Duration) (n int64) {
	for i := max(int(from/bucket), 0); i < min(int(to/bucket), len(series)); i++ {
		n += series[i].Admitted
	}
	return n
}
