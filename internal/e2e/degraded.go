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
	// wellFor is how long a region decides by its store before it counts as recovered, and
	// recoverWithin how long that may take.
	wellFor       = 2 * time.Second
	recoverWithin = 30 * time.Second
	// lookEvery is how often a check is made to see who decides, and looks how many keys
	// of as many clients it asks about: enough to meet all slots of a cluster's nodes.
	lookEvery = 20 * time.Millisecond
	looks     = 60
)

// DegradedSince is how long after an instant a region last decided a check without its
// store. It returns when the store has decided all of them for a while.
func (l *Cluster) DegradedSince(ctx context.Context, r *Region, since time.Time) (time.Duration, error) {
	last, began := since, time.Now()
	for n := 0; time.Since(last) < wellFor || time.Since(began) < wellFor; n++ {
		if time.Since(began) > recoverWithin {
			return 0, l.WithLogs(fmt.Errorf("%s still decides without its store after %v", r.Name, recoverWithin))
		}
		modes, err := l.Look(ctx, r, n)
		if err != nil {
			return 0, err
		}
		if modes.Degraded > 0 {
			last = time.Now()
		}
		Pause(ctx, lookEvery)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return last.Sub(since), nil
}

// looked counts checks by whether the store decided them.
type looked struct{ Degraded, All int }

// Look asks a region about clients of a limit, in one batch.
func (l *Cluster) Look(ctx context.Context, r *Region, n int) (out looked, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
	batch := &aliquotv1.CheckBatchRequest{}
	for i := range looks {
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
