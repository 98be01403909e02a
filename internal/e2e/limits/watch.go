package limits

import (
	"context"
	"strconv"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// budgetsWatched: while a client changes its region, and the shares follow, all coordinators show the same shares, and
// no sample of them adds up to more than 1.
func budgetsWatched(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Watch)
	c.Run = "watch" + strconv.FormatInt(time.Now().UnixNano(), 36)
	c.Pattern, c.Dwell, c.Rate = bench.Dwell, 2*time.Second, 500
	key := map[string]string{"api_key": "bench-" + c.Run + "-0"}
	run := clients.Begin(ctx, c)
	w := promise.Watch(ctx, l, run.Done, key)
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	return append(append(promise.Bounded(r), promise.AllAnswered(r)), w.Results(s)...), nil
}
