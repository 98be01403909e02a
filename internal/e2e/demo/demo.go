package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aliquot/internal/e2e"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// Demo shows on real processes what Aliquot does: a busy region gets the whole limit, and a greedy
// client that rotates regions gets no more than the limit while one thing after the other breaks.
type Demo struct {
	// Out gets a line a second, and a table at the end.
	Out io.Writer
	// Part is how long each part lasts, at least 4 s.
	Part time.Duration
}

const (
	demoCapacity = 300
	demoRate     = 100
	// demoBusy and demoGreedy are how many requests a second the two clients send.
	demoBusy   = 130
	demoGreedy = 400
	// demoPatience is how long a request waits for its answer.
	demoPatience = time.Second
)

// demoRun is a demonstration under way.
type demoRun struct {
	Demo
	cluster *e2e.LinkedCluster
	clients []aliquotv1connect.LimiterServiceClient
	key     map[string]string

	mu    sync.Mutex
	now   demoCount // of this second
	part  demoPart
	parts []demoPart
}

// demoCount is what became of requests.
type demoCount struct {
	admitted [3]int
	refused  int
	failed   int
}

func (c *demoCount) total() (n int) { return c.admitted[0] + c.admitted[1] + c.admitted[2] }

func (c *demoCount) add(o demoCount) {
	for i := range c.admitted {
		c.admitted[i] += o.admitted[i]
	}
	c.refused += o.refused
	c.failed += o.failed
}

// demoPart is one part of the demonstration.
type demoPart struct {
	what    string
	began   time.Time
	lasted  time.Duration
	slowest time.Duration
	demoCount
}

// Run runs the demonstration with the programs in bin and its state in dir. ok reports whether no
// more was admitted than the limit allows.
func (d Demo) Run(ctx context.Context, bin, dir string) (ok bool, err error) {
	fmt.Fprintln(d.Out, "starting 3 coordinators, and 3 regions with a Redis each ...")
	cluster, err := e2e.StartLinked(ctx, bin, dir)
	defer cluster.Stop()
	if err != nil {
		return false, err
	}
	r := &demoRun{Demo: d, cluster: cluster}
	for _, region := range cluster.Regions {
		r.clients = append(r.clients, aliquotv1connect.NewLimiterServiceClient(cluster.HTTP, rpc.BaseURL(region.Address)))
	}
	fmt.Fprintf(d.Out, "the limit: %d at once, %d a second, over all regions (strict)\n\n", demoCapacity, demoRate)
	if err := r.play(ctx); err != nil {
		return false, cluster.WithLogs(err)
	}
	return r.conclude(), nil
}

// play goes through the parts.
func (r *demoRun) play(ctx context.Context) error {
	busy := func(int) int { return 0 }
	rotate := func(n int) int { return n % 3 }
	leader, err := r.cluster.SomeLeader(ctx)
	if err != nil {
		return err
	}
	cut := r.cluster.Isolated(2, "both ways", e2e.Requests, e2e.Answers)
	nothing := func() error { return nil }
	for _, p := range []struct {
		key, what string
		perSecond int
		region    func(n int) int
		begin     func() error
	}{
		{"busy", "one busy region, the others idle", demoBusy, busy, nothing},
		{"greedy", "a greedy client rotates regions", demoGreedy, rotate, nothing},
		{"greedy", "the leader is killed (kill -9)", demoGreedy, rotate, leader.Kill9},
		{"greedy", "the Redis of eu-west is flushed", demoGreedy, rotate, func() error { return r.cluster.Flush(r.cluster.Regions[1]) }},
		{"greedy", "ap-south is cut off from the coordinators", demoGreedy, rotate, cut.Begin},
		{"greedy", "ap-south is back", demoGreedy, rotate, cut.End},
	} {
		if err := p.begin(); err != nil {
			return err
		}
		r.key = map[string]string{"api_key": p.key}
		r.ask(ctx, p.what, p.perSecond, p.region)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// ask sends requests at a pace for one part, and prints a line a second.
func (r *demoRun) ask(ctx context.Context, what string, perSecond int, region func(n int) int) {
	fmt.Fprintf(r.Out, "%s\n", what)
	r.mu.Lock()
	r.now, r.part = demoCount{}, demoPart{what: what, began: time.Now()}
	r.mu.Unlock()
	pace, second := time.NewTicker(time.Second/time.Duration(perSecond)), time.NewTicker(time.Second)
	defer pace.Stop()
	defer second.Stop()
	end := time.NewTimer(r.Part)
	defer end.Stop()
	var calls sync.WaitGroup
	sent := 0
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-end.C:
			over = true
		case <-second.C:
			calls.Go(func() { r.line(ctx) })
		case <-pace.C:
			// A ticker drops what it is late for: catch up.
			due := int(time.Since(r.part.began) * time.Duration(perSecond) / time.Second)
			for ; sent < due; sent++ {
				to := region(sent)
				calls.Go(func() { r.request(ctx, to) })
			}
		}
	}
	calls.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part.lasted = time.Since(r.part.began)
	r.parts = append(r.parts, r.part)
	fmt.Fprintln(r.Out)
}

// request asks a region for one request.
func (r *demoRun) request(ctx context.Context, to int) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	sent := time.Now()
	answer, err := r.clients[to].Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "big", "api_key": r.key["api_key"]}})
	took := time.Since(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	var c demoCount
	switch {
	case err != nil && connect.CodeOf(err) == connect.CodeCanceled:
		return // the demonstration is interrupted
	case err != nil:
		c.failed = 1
	case answer.GetAllowed():
		c.admitted[to] = 1
	default:
		c.refused = 1
	}
	r.now.add(c)
	r.part.add(c)
	r.part.slowest = max(r.part.slowest, took)
}

// line prints what happened in the latest second, and who holds how much of the limit.
func (r *demoRun) line(ctx context.Context) {
	shares := r.shares(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	r.now = demoCount{}
	fmt.Fprintf(r.Out, "  admitted %4d  (%s)  refused %4d  unanswered %d   %s\n",
		now.total(), r.byRegion(now.admitted), now.refused, now.failed, shares)
}

func (r *demoRun) byRegion(counts [3]int) string {
	out := ""
	for i, region := range r.cluster.Regions {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%s %3d", region.Region, counts[i])
	}
	return out
}

// shares is how much of the limit's rate each region holds, in words.
func (r *demoRun) shares(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for _, c := range r.cluster.Coordinators {
		if !c.Running() {
			continue
		}
		b, err := r.cluster.Budget(ctx, c, e2e.BigRule, r.key)
		if err != nil {
			continue
		}
		out := "shares:"
		for _, region := range b.GetRegions() {
			out += fmt.Sprintf(" %s %.0f %%", region.GetRegion(), 100*region.GetShare())
		}
		return out
	}
	return "shares: no coordinator answers"
}

// conclude prints the table, and reports whether the limit held.
func (r *demoRun) conclude() bool {
	fmt.Fprintf(r.Out, "%-44s %8s %9s %9s %8s %8s %11s %8s\n", "what happened", "seconds", "admitted", "a second", "lost", "refused", "unanswered", "slowest")
	ok := true
	for _, c := range []struct {
		name  string
		parts []demoPart
	}{{"busy", r.parts[:1]}, {"greedy", r.parts[1:]}} {
		var all demoCount
		for _, p := range c.parts {
			all.add(p.demoCount)
			fmt.Fprintf(r.Out, "%-44s %8.1f %9d %9.1f %8d %8d %11d %8v\n", p.what, p.lasted.Seconds(), p.total(),
				float64(p.total())/p.lasted.Seconds(), max(0, int(demoRate*p.lasted.Seconds())-p.total()), p.refused, p.failed, p.slowest.Round(time.Millisecond))
		}
		last := c.parts[len(c.parts)-1]
		took := last.began.Add(last.lasted).Sub(c.parts[0].began)
		bound := demoCapacity + int(demoRate*1.02*took.Seconds())
		ok = ok && all.total() <= bound
		fmt.Fprintf(r.Out, "%-44s %8.1f %9d  of at most %d: %d + %d x 1.02 x %.1f\n\n", "the "+c.name+" client in all", took.Seconds(), all.total(), bound,
			demoCapacity, demoRate, took.Seconds())
	}
	fmt.Fprintf(r.Out, "lost: what the limit would have allowed in that time and nobody was given\n")
	if !ok {
		fmt.Fprintln(r.Out, "more was admitted than the limit allows")
	}
	return ok
}

// errDemoPart: the parts are too short to show anything.
var errDemoPart = errors.New("each part of the demonstration has to last at least 4s")

// Valid reports what is wrong with the settings.
func (d Demo) Valid() error {
	if d.Part < 4*time.Second {
		return errDemoPart
	}
	return nil
}
