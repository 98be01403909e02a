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

// roaming are clients of the small limit who ask in the cluster's first two regions by turns,
// half of them here while the others are there.
type roaming struct {
	cluster *e2e.Cluster
	clients []string
	cost    int64 // of each check
	began   time.Time
	seen    []sighting // of all checks, in order
	failed  int64
	failure any
}

// sighting is one check that was answered.
type sighting struct {
	client   int
	region   int
	degraded bool // decided without the store
	allowed  bool
}

func newRoaming(l *e2e.Cluster, n int) *roaming {
	w := &roaming{cluster: l, began: time.Now(), cost: 1, failure: ""}
	run := strconv.FormatInt(w.began.UnixNano(), 36)
	for i := range n {
		w.clients = append(w.clients, fmt.Sprintf("roams-%s-%d", run, i))
	}
	return w
}

// ask lets them ask for a while, and returns how much of its lease the first region had left
// at the least.
func (w *roaming) ask(ctx context.Context, d time.Duration) (shortest time.Duration) {
	shortest = e2e.Lease
	tick := time.NewTicker(time.Second / smallDemand)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return shortest
		case <-tick.C:
		}
		turn := int(time.Since(w.began) / stays)
		for region := range 2 {
			w.askIn(ctx, region, turn)
		}
		left, err := w.cluster.Lease(ctx, w.cluster.Regions[0])
		if err != nil {
			w.fail(err)
			continue
		}
		shortest = min(shortest, left)
	}
	return shortest
}

// askIn asks once for each client whose turn it is in a region.
func (w *roaming) askIn(ctx context.Context, region, turn int) {
	ctx, cancel := context.WithTimeout(ctx, e2e.CallWithin)
	defer cancel()
	client := aliquotv1connect.NewLimiterServiceClient(w.cluster.HTTP, rpc.BaseURL(w.cluster.Regions[region].Address))
	batch := &aliquotv1.CheckBatchRequest{}
	var of []int
	for i, name := range w.clients {
		if (i+turn)%2 != region {
			continue
		}
		of = append(of, i)
		batch.Requests = append(batch.Requests, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "small", "api_key": name}, Cost: &w.cost})
	}
	answer, err := client.CheckBatch(ctx, batch)
	if err != nil {
		w.fail(err)
		return
	}
	for n, result := range answer.GetResults() {
		a := result.GetResponse()
		if a == nil {
			w.fail(fmt.Errorf("no answer for %s: %v", w.clients[of[n]], result))
			continue
		}
		w.seen = append(w.seen, sighting{
			client: of[n], region: region, allowed: a.GetAllowed(), degraded: a.GetMode() != "store" && a.GetMode() != "local",
		})
	}
}

func (w *roaming) fail(err error) {
	w.failed++
	w.failure = err
}

// degraded tells the clients whom the first region decided without its store as a rule, and
// how many checks of others it decided so.
func (w *roaming) degraded(seen []sighting) (as map[int]bool, others int64) {
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

// admittedBy counts what was admitted of all clients but some.
func admittedBy(seen []sighting, but map[int]bool) (n int64) {
	for _, s := range seen {
		if s.allowed && !but[s.client] {
			n++
		}
	}
	return n
}
