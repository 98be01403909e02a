package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// client asks for one key at a steady rate, each region in turn. It does not wait for answers.
type client struct {
	plan outagePlan
	key  string
	// from is the time of its first request, since the traffic began, and every the time to the next one; 0: it asks
	// once.
	from, every time.Duration
	// greedy: it asks for more than its limit, so that refusals are right.
	greedy bool
}

// request is one request of a client and its answer.
type request struct {
	client         *client
	region         int
	sent, answered time.Duration // since the traffic began
	allowed        bool
	mode           string
	err            error
	// turnedAway is how many times the daemon answered that it is too busy. Such a call decides and costs nothing. The
	// client repeats it after the wait that the answer names; sent is the time of the last call.
	turnedAway int
	// held is when a slot was given back, if the request took one.
	held time.Duration
	// unsettled is why the slot could not be given back.
	unsettled error
}

// degraded reports whether the request was decided without the store.
func (r *request) degraded() bool { return r.err == nil && r.mode != "store" && r.mode != "local" }

// traffic sends the clients' requests and keeps their answers. Read them after wait.
type traffic struct {
	began    time.Time
	requests []request
	stop     context.CancelFunc
	clients  sync.WaitGroup
	mu       sync.Mutex
	close    func()
}

// answerWithin bounds a request, and settleWithin the time until its slot is given back, after which the reservation
// would end.
const answerWithin, settleWithin = 20 * time.Second, time.Minute

// slotHeld is how long a client keeps a slot, and greedyHeld how long a greedy one does.
const slotHeld, greedyHeld = 100 * time.Millisecond, 5 * time.Second

// startTraffic starts clients, which ask until wait is called.
func startTraffic(ctx context.Context, l *e2e.Cluster, clients []client) (*traffic, error) {
	ctx, stop := context.WithCancel(ctx)
	t := &traffic{began: time.Now(), stop: stop}
	var regions []aliquotv1.LimiterServiceClient
	var conns []*grpc.ClientConn
	t.close = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for _, r := range l.Regions {
		retry := backoff.Config{BaseDelay: e2e.PollEvery, Multiplier: 1.6, Jitter: .2, MaxDelay: 10 * e2e.PollEvery}
		conn, err := grpc.NewClient(r.Flag("--grpc-listen"), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}))
		if err != nil {
			t.close()
			return nil, err
		}
		conns, regions = append(conns, conn), append(regions, aliquotv1.NewLimiterServiceClient(conn))
	}
	for i := range clients {
		t.clients.Go(func() { t.run(ctx, &clients[i], regions, i) })
	}
	return t, nil
}

// run sends a client's requests when they are due, each to the next region.
func (t *traffic) run(ctx context.Context, c *client, regions []aliquotv1.LimiterServiceClient, turn int) {
	timer := time.NewTimer(c.from - time.Since(t.began))
	defer timer.Stop()
	for due := c.from; ; due += c.every {
		timer.Reset(due - time.Since(t.began))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		number, region := turn, turn%len(regions)
		turn++
		t.clients.Go(func() { t.send(c, regions[region], region, number) })
		if c.every == 0 {
			return
		}
	}
}

// send sends one request, and gives back the slot that it took, if any. index is the region's number.
func (t *traffic) send(c *client, region aliquotv1.LimiterServiceClient, index, number int) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	out := request{client: c, region: index, sent: time.Since(t.began)}
	attributes := map[string]string{"plan": c.plan.name(), "api_key": c.key}
	var answer *aliquotv1.CheckResponse
	var id string
	for {
		if c.plan.algorithm == slots {
			var made *aliquotv1.ReserveResponse
			made, out.err = region.Reserve(ctx, &aliquotv1.ReserveRequest{Id: fmt.Sprintf("%s-%d", c.key, number), Attributes: attributes})
			answer, id = made.GetDecision(), cmp.Or(made.GetId(), "none")
		} else {
			answer, out.err = region.Check(ctx, &aliquotv1.CheckRequest{Attributes: attributes})
		}
		if !tooBusy(out.err) || ctx.Err() != nil {
			break
		}
		e2e.Pause(ctx, retryAfter)
		out.sent, out.turnedAway = time.Since(t.began), out.turnedAway+1
	}
	out.answered, out.allowed, out.mode = time.Since(t.began), answer.GetAllowed(), answer.GetMode()
	if out.err == nil && answer.GetRuleId() != c.plan.name() {
		out.err = fmt.Errorf("rule %q decided", answer.GetRuleId())
	}
	if c.plan.algorithm == slots && out.allowed {
		hold := slotHeld
		if c.greedy {
			hold = greedyHeld
		}
		e2e.Pause(ctx, hold)
		out.held = time.Since(t.began)
		ctx, cancel := context.WithTimeout(context.Background(), settleWithin-hold)
		defer cancel()
		out.unsettled = settle(ctx, region, id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, out)
}

// tooBusy reports whether a daemon answered that it is too busy to decide, and that the client is to ask again after
// retryAfter.
func tooBusy(err error) bool {
	return status.Code(err) == codes.Unavailable && strings.HasSuffix(status.Convert(err).Message(), "retry after 1 s")
}

const retryAfter = time.Second

// settle settles a reservation. It tries every second until the daemon answers, and then once more, when the answer
// must be that the reservation was settled already. It returns why that failed.
func settle(ctx context.Context, region aliquotv1.LimiterServiceClient, id string) error {
	for {
		done, err := region.Settle(ctx, &aliquotv1.SettleRequest{Id: id})
		switch {
		case err == nil && done.GetState() == "already_settled":
			return nil
		case err != nil && (status.Code(err) == codes.NotFound || ctx.Err() != nil):
			return err
		case err != nil:
			e2e.Pause(ctx, retryAfter)
		}
	}
}

// wait ends the traffic and waits for the last answers.
func (t *traffic) wait() {
	t.stop()
	t.clients.Wait()
	t.close()
	slices.SortFunc(t.requests, func(a, b request) int { return cmp.Compare(a.sent, b.sent) })
}

// at returns the time since the traffic began.
func (t *traffic) at() time.Duration { return time.Since(t.began) }

// gain returns the largest part of its limit that a greedy client of a plan got: of a bucket in any interval, of a
// counting limit in a window, of slots at once.
func (t *traffic) gain(p outagePlan, regions int) (most float64) {
	of := map[*client][]request{}
	for _, r := range t.requests {
		if r.client.plan == p && r.client.greedy && r.allowed {
			of[r.client] = append(of[r.client], r)
		}
	}
	for _, admitted := range of {
		most = max(most, p.gain(admitted, t.began, regions))
	}
	return most
}

// gain returns the largest part of its limit that one client got. Its admissions are in the order of sending.
func (p outagePlan) gain(admitted []request, began time.Time, regions int) float64 {
	switch p.algorithm {
	case "token_bucket", "leaky_bucket":
		limit := bench.Limit{Capacity: outageBurst, Refill: outageRate}
		if p.enforcement == "elastic" {
			limit.Capacity *= float64(regions)
		}
		all := make([]bench.Admission, len(admitted))
		for i, r := range admitted {
			all[i] = bench.Admission{Sent: r.sent, Received: r.answered}
		}
		return bench.WorstWindow(all, limit).Gain
	case slots:
		return p.largest(admitted, func(first, other *request) bool {
			return other.answered <= first.answered && other.held > first.answered
		})
	case "sliding_window_log":
		return p.largest(admitted, func(first, other *request) bool {
			return other.sent >= first.sent && other.answered < first.sent+outageWindow
		})
	}
	number := func(at time.Duration) int64 { return began.Add(at).UnixMicro() / outageWindow.Microseconds() }
	return p.largest(admitted, func(first, other *request) bool {
		return number(other.sent) == number(first.sent) && number(other.answered) == number(first.sent)
	})
}

// largest returns the largest number of admissions that count together with one of them, as a part of the limit.
func (p outagePlan) largest(admitted []request, together func(first, other *request) bool) (most float64) {
	for i := range admitted {
		n := 0.
		for j := range admitted {
			if together(&admitted[i], &admitted[j]) {
				n++
			}
		}
		most = max(most, n/outageCount)
	}
	return most
}
