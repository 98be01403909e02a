package e2e

import (
	"context"
	"fmt"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// recoveredAfter is how long a region decides by its store before it counts as recovered, and recoverWithin how
	// long that may take.
	recoveredAfter = 2 * time.Second
	recoverWithin  = 30 * time.Second
	// probeEvery is how often a region is asked who decides. probeKeys is how many keys it is asked about: enough to
	// meet every node of a Redis Cluster.
	probeEvery = 20 * time.Millisecond
	probeKeys  = 60
)

// DegradedSince waits until a region's store has decided all checks for recoveredAfter. It returns how long after since
// the region last decided a check without its store.
func (l *Cluster) DegradedSince(ctx context.Context, r *Region, since time.Time) (time.Duration, error) {
	last, began := since, time.Now()
	for n := 0; time.Since(last) < recoveredAfter || time.Since(began) < recoveredAfter; n++ {
		if time.Since(began) > recoverWithin {
			return 0, l.WithLogs(fmt.Errorf("%s still decides without its store after %v", r.Name, recoverWithin))
		}
		modes, err := l.Probe(ctx, r, n)
		if err != nil {
			return 0, err
		}
		if modes.Degraded > 0 {
			last = time.Now()
		}
		Pause(ctx, probeEvery)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return last.Sub(since), nil
}

// probed counts checks by whether the store decided them.
type probed struct{ Degraded, All int }

// Probe asks a region about many clients of a limit, in one batch. n selects one of ten sets of clients.
func (l *Cluster) Probe(ctx context.Context, r *Region, n int) (out probed, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
	batch := &aliquotv1.CheckBatchRequest{}
	for i := range probeKeys {
		batch.Requests = append(batch.Requests, &aliquotv1.CheckRequest{
			Attributes: map[string]string{"plan": "big", "api_key": fmt.Sprintf("look-%d-%d", i, n%10)},
		})
	}
	answer, err := client.CheckBatch(ctx, batch)
	if err != nil {
		return out, err
	}
	for _, result := range answer.GetResults() {
		out.All++
		if mode := result.GetResponse().GetMode(); mode != "store" && mode != "local" {
			out.Degraded++
		}
	}
	return out, nil
}
