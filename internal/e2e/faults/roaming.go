package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// roaming is a set of clients of the small limit. They ask the cluster's first two regions in turn: while half of them
// ask one region, the others ask the other.
type roaming struct {
	cluster *e2e.Cluster
	clients []string
	cost    int64 // of each check
	began   time.Time
	seen    []answered // all checks, in order
	failed  int64
	failure any
}

// answered is one check that was answered.
type answered struct {
	client   int
	region   int
	degraded bool // decided without the store
	allowed  bool
}

func newRoaming(l *e2e.Cluster, n int) *roaming {
	r := &roaming{cluster: l, began: time.Now(), cost: 1, failure: ""}
	run := strconv.FormatInt(r.began.UnixNano(), 36)
	for i := range n {
		r.clients = append(r.clients, fmt.Sprintf("roams-%s-%d", run, i))
	}
	return r
}

// ask runs the clients for d. It returns the least time that the first region's lease had left meanwhile.
func (r *roaming) ask(ctx context.Context, d time.Duration) (shortest time.Duration) {
	shortest = e2e.Lease
	tick := time.NewTicker(time.Second / smallDemand)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return shortest
		case <-tick.C:
		}
		turn := int(time.Since(r.began) / stays)
		for region := range 2 {
			r.askIn(ctx, region, turn)
		}
		left, err := r.cluster.Lease(ctx, r.cluster.Regions[0])
		if err != nil {
			r.fail(err)
			continue
		}
		shortest = min(shortest, left)
	}
	return shortest
}

// askIn sends a check for each client that asks the region at this turn.
func (r *roaming) askIn(ctx context.Context, region, turn int) {
	ctx, cancel := context.WithTimeout(ctx, e2e.CallWithin)
	defer cancel()
	client := aliquotv1connect.NewLimiterServiceClient(r.cluster.HTTP, rpc.BaseURL(r.cluster.Regions[region].Address))
	batch := &aliquotv1.CheckBatchRequest{}
	var of []int
	for i, name := range r.clients {
		if (i+turn)%2 != region {
			continue
		}
		of = append(of, i)
		batch.Requests = append(batch.Requests, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "small", "api_key": name}, Cost: &r.cost})
	}
	answer, err := client.CheckBatch(ctx, batch)
	if err != nil {
		r.fail(err)
		return
	}
	for n, result := range answer.GetResults() {
		a := result.GetResponse()
		if a == nil {
			r.fail(fmt.Errorf("no answer for %s: %v", r.clients[of[n]], result))
			continue
		}
		r.seen = append(r.seen, answered{
			client: of[n], region: region, allowed: a.GetAllowed(), degraded: a.GetMode() != "store" && a.GetMode() != "local",
		})
	}
}

func (r *roaming) fail(err error) {
	r.failed++
	r.failure = err
}

// degraded returns the clients for which the first region decided most checks without its store, and how many checks of
// other clients it decided so.
func (r *roaming) degraded(seen []answered) (as map[int]bool, others int64) {
	with, without := map[int]int64{}, map[int]int64{}
	for _, s := range seen {
		switch {
		case s.region != 0:
		case s.degraded:
			without[s.client]++
		default:
			with[s.client]++
		}
	}
	as = map[int]bool{}
	for client, n := range without {
		if n > with[client] {
			as[client] = true
		} else {
			others += n
		}
	}
	return as, others
}

// admittedExcept counts the admitted checks of all clients but some.
func admittedExcept(seen []answered, but map[int]bool) (n int64) {
	for _, s := range seen {
		if s.allowed && !but[s.client] {
			n++
		}
	}
	return n
}
