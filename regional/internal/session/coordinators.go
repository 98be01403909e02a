package session

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aliquot/internal/ratelog"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/telemetry"
)

const (
	// helloDeadline and reportDeadline bound the calls. The leader may hold the answer to a report
	// for a moment.
	helloDeadline  = 2 * time.Second
	reportDeadline = 2*time.Second + 500*time.Millisecond
	// leaveDeadline bounds each call that tells of a stop, and leavePause is the wait once all coordinators have failed.
	leaveDeadline = time.Second
	leavePause    = 50 * time.Millisecond
	// helloKey is how much longer a Hello may take for each key that it names, in every second
	// round in which all coordinators have failed. A Hello of 200,000 keys has 10 MB. If processors
	// or the network are too slow to handle it within helloDeadline, to give it up and repeat it
	// would only make them slower, and never open a session.
	helloKey = 100 * time.Microsecond
	// Once every coordinator has failed in a row, the next Hello waits, longer each time, up to
	// backoffMost. In a cluster of many regions it waits longer, so that all regions together say
	// one Hello every helloEvery. The reason is that each Hello names all keys that its region
	// holds.
	backoffFirst = 50 * time.Millisecond
	backoffMost  = time.Second
	helloEvery   = 50 * time.Millisecond
	// spreadMost bounds that wait.
	spreadMost = 10 * time.Second
	// startsWithin is how long coordinators may be silent at first before that is worth a warning.
	// Coordinators that start together with their regions elect a leader first.
	startsWithin = 10 * time.Second
	// complainEvery is the minimum interval of log lines about coordinators that do not answer.
	complainEvery = 30 * time.Second
	// maxAnswer bounds a coordinator's answer. The largest is that to a Hello of a region that has
	// lost everything: rules of 4 MiB and a share for each of 200,000 hot keys.
	maxAnswer = 32 << 20
)

// coordinators calls one of the coordinators. It stays with the one that answered last, and goes
// through the list when that one fails. Any of them forwards to the leader. The calls are made by
// one caller at a time.
type coordinators struct {
	clients   []aliquotv1connect.LeaseServiceClient
	addresses []string
	log       *slog.Logger
	metrics   *telemetry.Metrics

	mu       sync.Mutex
	current  int
	failures int // in a row
	failing  ratelog.Limiter
	refused  string // the leader's error, if it refused the last call; else ""
	answered time.Time
	began    time.Time
}

func newCoordinators(addresses []string, client *http.Client, log *slog.Logger, m *telemetry.Metrics) *coordinators {
	c := &coordinators{addresses: addresses, log: log, metrics: m, failing: ratelog.Limiter{Every: complainEvery}, began: time.Now()}
	for _, a := range addresses {
		c.clients = append(c.clients, aliquotv1connect.NewLeaseServiceClient(
			client, rpc.BaseURL(a), connect.WithReadMaxBytes(maxAnswer)))
	}
	// Regions that start together should not all call the same coordinator.
	if len(addresses) > 0 {
		c.current = rand.IntN(len(addresses))
	}
	return c
}

// awaitTurn waits until a region of so many regions may say its next Hello. It returns false if the
// context ended first.
func (c *coordinators) awaitTurn(ctx context.Context, regions int) bool {
	return background.Pause(ctx, c.backoff(regions))
}

// helloWithin returns how long a Hello that names so many keys may take.
func (c *coordinators) helloWithin(keys int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures/len(c.clients)%2 == 0 {
		return helloDeadline // in every other round, a silent coordinator delays no Hello for longer
	}
	return helloDeadline + time.Duration(keys)*helloKey
}

// hello asks for a session.
func (c *coordinators) hello(ctx context.Context, in *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	call, cancel := context.WithTimeout(ctx, c.helloWithin(len(in.GetHeld())))
	defer cancel()
	client, i := c.pick()
	out, err := client.Hello(call, in)
	if ctx.Err() != nil {
		return nil, ctx.Err() // the daemon stops, which is no failure of the coordinator
	}
	word := result(err)
	if out.GetBusy() && in.GetRedisEpoch() != "" {
		word = "busy" // with another daemon of the region
	}
	c.outcome("hello", i, word, err)
	return out, err
}

// report sends usage and returns a directive.
func (c *coordinators) report(ctx context.Context, in *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	call, cancel := context.WithTimeout(ctx, reportDeadline)
	defer cancel()
	client, i := c.pick()
	out, err := client.Report(call, in)
	if ctx.Err() != nil {
		return nil, ctx.Err() // the daemon stops, as in hello
	}
	c.outcome("report", i, result(err), err)
	return out, err
}

// leave reports that this daemon stops, to one coordinator after the other until one passes on the leader's answer. For a
// place it goes through the list again until ctx ends, because a place that is not kept is lost. It returns why the leader
// has not taken the report.
func (c *coordinators) leave(ctx context.Context, in *aliquotv1.ReportRequest) (err error) {
	for {
		for range c.clients {
			if err = c.reportLeaving(ctx, in); err == nil || refusal(err) || ctx.Err() != nil {
				return err
			}
			c.moveOn()
		}
		if in.GetPlace() == 0 || !background.Pause(ctx, leavePause) {
			return err
		}
	}
}

func (c *coordinators) reportLeaving(ctx context.Context, in *aliquotv1.ReportRequest) error {
	call, cancel := context.WithTimeout(ctx, leaveDeadline)
	defer cancel()
	client, _ := c.pick()
	_, err := client.Report(call, in)
	return err
}

func (c *coordinators) pick() (aliquotv1connect.LeaseServiceClient, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[c.current], c.current
}

// index returns the index of the coordinator that is called next.
func (c *coordinators) index() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// moveOn leaves a coordinator that failed, or that answered for an earlier leader.
func (c *coordinators) moveOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = (c.current + 1) % len(c.clients)
	c.failures++
}

// backoff returns the wait before the next Hello of one of so many regions. It is 0 until all
// coordinators have failed. Then it is random within a time that doubles, so that regions do not
// come back in step.
func (c *coordinators) backoff(regions int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	rounds := c.failures - len(c.clients)
	if rounds < 0 {
		return 0
	}
	const doublings = 8 // beyond spreadMost
	longest := max(backoffMost, min(time.Duration(regions)*helloEvery, spreadMost))
	most := min(backoffFirst<<min(rounds, doublings), longest)
	least := min(most, backoffMost) / 2
	return least + rand.N(most-least+1)
}

// outcome records how a call went and moves on from a coordinator that failed. word is the label of
// the metric. A refusal comes from the leader, so it is no failure of the coordinator that passed
// it on.
func (c *coordinators) outcome(call string, i int, word string, err error) {
	c.metrics.Reports.WithLabelValues(c.metrics.Region, word).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || refusal(err) {
		c.answered = time.Now()
	}
	if err == nil {
		if c.failing.Reset() {
			c.log.Info("coordinators answer again", "address", c.addresses[i])
		}
		c.failures, c.refused = 0, ""
		return
	}
	c.failures++
	refused := refusal(err)
	if c.refused = ""; refused {
		c.refused = err.Error()
	}
	if !refused && i == c.current {
		c.current = (i + 1) % len(c.clients)
	}
	c.complain(call, c.addresses[i], refused, err)
}

// lastAnswer returns how long ago a coordinator has answered, refusals included, and false if none has.
func (c *coordinators) lastAnswer() (ago time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.answered), !c.answered.IsZero()
}

// refusal returns why the leader refuses this region. It returns "" if the last call ended
// otherwise, because it is then unknown whether the leader still would.
func (c *coordinators) refusal() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// complain logs a failure once, and again when it changes or has lasted.
func (c *coordinators) complain(call, address string, refused bool, err error) {
	routine := connect.CodeOf(err) == connect.CodeFailedPrecondition && c.failures <= len(c.clients)
	if starts := c.answered.IsZero() && time.Since(c.began) < startsWithin; starts && !refused {
		c.log.Info("waiting for the coordinators", "call", call, "address", address, "error", err)
		return
	}
	if routine || !c.failing.Allow(connect.CodeOf(err).String(), time.Now()) {
		return
	}
	if refused {
		c.log.Error("the leader refuses this region", "call", call, "error", err)
		return
	}
	c.log.Warn("a call to the coordinators failed; checks go on with what this region may spend without them",
		"call", call, "address", address, "error", err)
}

// refusal reports whether an error is an answer of the leader, and not the lack of one.
func refusal(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied, connect.CodeFailedPrecondition, connect.CodeInvalidArgument, connect.CodeUnauthenticated:
		return true
	}
	return false
}

// result returns the label of a call's outcome, from a fixed set.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case refusal(err):
		return "refused"
	case connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return "timeout"
	}
	return "failed"
}
