package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/bench/load"
)

const (
	// stallRate is the checks a second of the short form; the full one takes half of what
	// the machine can do.
	stallRate = 300
	// measureFor is how long that is measured.
	measureFor = 3 * time.Second
	// atOnce is how many checks are under way meanwhile, as in every closed loop of
	// docs/benchmarks/faults.md.
	atOnce = 64
	// warmUp is for how long a load runs before the Redis is stopped.
	warmUp = 300 * time.Millisecond
	// settleFor is how long a daemon is left alone before its memory is looked at.
	settleFor = 2 * time.Second
	// moreGoroutines and moreHeap are what a daemon may have more of after a fault: calls
	// under way when it is looked at, connections of the load that go away in a while, and
	// garbage.
	moreGoroutines = 50
	moreHeap       = 32 << 20
	// greedyBy is how many times its limit a client asks for that is to be denied.
	greedyBy = 5
)

// redisStopped: a Redis that takes connections and does not answer costs its region's
// clients neither answers nor time, and nobody gains by it.
func redisStopped(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	region, redis := l.Regions[0], l.Redis[0]
	c, err := l.manyKeys(ctx, region, s)
	if err != nil {
		return nil, err
	}
	pause(ctx, settleFor)
	before, err := l.footprint(ctx, region)
	if err != nil {
		return nil, err
	}
	rotation := begin(ctx, l.paced(2*time.Second+s.Stall+s.Run))
	usual, err := part(ctx, c, time.Second)
	if err != nil {
		return nil, err
	}
	var floor *load.Report // nobody asks for it where latencies do not count
	if s.Latencies {
		if floor, err = l.onFloor(ctx, c, s.Stall-time.Second); err != nil {
			return nil, err
		}
	}
	from := c
	from.Warmup = warmUp
	loaded := inBackground(ctx, from, time.Second)
	pause(ctx, warmUp)
	if err := redis.Pause(); err != nil {
		return nil, err
	}
	stopped := time.Now()
	first, err := loaded()
	if err != nil {
		return nil, errors.Join(err, redis.Resume())
	}
	later, err := part(ctx, c, s.Stall-time.Second)
	if err != nil {
		return nil, errors.Join(err, redis.Resume())
	}
	pause(ctx, s.Stall-time.Since(stopped))
	if err := redis.Resume(); err != nil {
		return nil, err
	}
	took, err := l.degradedSince(ctx, region, time.Now())
	if err != nil {
		return nil, err
	}
	r, err := rotation.wait()
	if err != nil {
		return nil, err
	}
	pause(ctx, settleFor)
	after, err := l.footprint(ctx, region)
	if err != nil {
		return nil, err
	}
	out := append(bounded(r), unfailing(r),
		none("checks without an answer", first.Failed+later.Failed, first.Examples),
		none("checks decided by a store that did not answer, after the first second", later.Modes["store"], later.Modes),
		atMost("seconds degraded after the Redis went on", took.Seconds(), 6),
		atMost("more goroutines afterwards", after.goroutines-before.goroutines, moreGoroutines),
		atMost("more heap afterwards, MiB", (after.heap-before.heap)/(1<<20), moreHeap/(1<<20)))
	if s.Latencies {
		at := fmt.Sprintf("at %.0f checks/s of %.0f that the machine can do, p99 %.1f ms and median %.1f ms before, of a server that decides nothing %.1f and %.1f: ",
			c.Rate, 2*c.Rate, milliseconds(usual.Latency.P99), milliseconds(usual.Latency.P50), milliseconds(floor.Latency.P99), milliseconds(floor.Latency.P50))
		out = append(out, prefixed(at,
			atMost("p99 of the first second, ms", milliseconds(first.Latency.P99), 60),
			atMost(fmt.Sprintf("p99 after it (median %.1f), ms", milliseconds(later.Latency.P50)), milliseconds(later.Latency.P99), 5))...)
	}
	return out, l.AwaitLeases(ctx)
}

// paced is a client that turns to one region after the other and asks for a few times its
// limit. One that asks as fast as it can takes all of the machine that the load leaves.
func (l *Cluster) paced(d time.Duration) bench.Config {
	c := l.load(d)
	c.Rate = greedyBy * big.Refill
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// manyKeys is a load on one region, of keys of which but the busiest stay within their
// limit: with latencies to be measured, half of what the machine can do.
func (l *Cluster) manyKeys(ctx context.Context, r *Region, s Scale) (load.Config, error) {
	c := load.DefaultConfig()
	// Many checks share a connection, so that those that wait hold up none of the next ones,
	// and few connections are opened when a part of the load begins.
	c.Protocol, c.Address, c.Server.Ops = load.GRPC, r.flag("--grpc-listen"), r.Ops()
	c.Connections, c.Workers, c.Warmup = 16, 1024, 0
	c.Keys, c.Attributes = 10_000, []string{"plan=big", "api_key=load-" + fmt.Sprint(time.Now().UnixNano()) + "-" + load.KeyPlaceholder}
	c.Rate = stallRate
	if !s.Latencies {
		return c, nil
	}
	capacity, err := l.capacity(ctx, c)
	c.Rate = capacity / 2
	return c, err
}

// capacity is how many checks a second of a load are answered when so many are under way
// at once that the machine is never idle, but few enough that none waits long: of a
// thousand under way each system call would carry dozens, and the machine do twice as much
// as it does when checks come by themselves. The rest of the scenario's load is there, too.
func (l *Cluster) capacity(ctx context.Context, c load.Config) (float64, error) {
	c.Rate, c.Workers, c.Warmup = 0, atOnce, warmUp
	rotation := begin(ctx, l.paced(warmUp+measureFor))
	most, err := part(ctx, c, measureFor)
	_, rotated := rotation.wait()
	if err := errors.Join(err, rotated); err != nil {
		return 0, err
	}
	return most.ChecksPerSecond, nil
}

// part is the load for a while.
func part(ctx context.Context, c load.Config, d time.Duration) (*load.Report, error) {
	c.Duration = d
	return load.Run(ctx, c)
}

// footprint is what a daemon holds.
type footprint struct{ goroutines, heap float64 }

func (l *Cluster) footprint(ctx context.Context, r *Region) (f footprint, err error) {
	if f.goroutines, err = l.metric(ctx, r, "go_goroutines "); err != nil {
		return f, err
	}
	f.heap, err = l.metric(ctx, r, "go_gc_heap_live_bytes ")
	return f, err
}
