package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/bench/load"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

const (
	// stallRate is the rate of checks in the short form. In the full form it is half of what the machine can do, which
	// is measured for measureFor.
	stallRate  = 300
	measureFor = 3 * time.Second
	// atOnce is how many checks are under way during that measurement, as in every closed loop of
	// docs/benchmarks/faults.md.
	atOnce = 64
	// warmUp is how long a load runs before the Redis is stopped.
	warmUp = 300 * time.Millisecond
	// settleFor is how long a daemon gets no load before its memory is measured.
	settleFor = 2 * time.Second
	// moreGoroutines and moreHeap are how much more a daemon may have after a fault: for calls under way at that time,
	// connections of the load that are not closed yet, and garbage.
	moreGoroutines = 50
	moreHeap       = 32 << 20
)

// redisStopped: while a Redis accepts connections and does not answer, every check of its region is answered in time,
// and no client gets more than its limit.
func redisStopped(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	region, redis := l.Regions[0], l.Redis[0]
	c, err := manyKeys(ctx, l, region, s)
	if err != nil {
		return nil, err
	}
	e2e.Pause(ctx, settleFor)
	before, err := footprintOf(ctx, l, region)
	if err != nil {
		return nil, err
	}
	rotation := clients.Begin(ctx, clients.Paced(l, 2*time.Second+s.Stall+s.Run))
	usual, err := runLoad(ctx, c, time.Second)
	if err != nil {
		return nil, err
	}
	var empty *load.Report // only if latencies are promised
	if s.Latencies {
		if empty, err = onEmptyServer(ctx, l, c, s.Stall-time.Second); err != nil {
			return nil, err
		}
	}
	from := c
	from.Warmup = warmUp
	loaded := inBackground(ctx, from, time.Second)
	e2e.Pause(ctx, warmUp)
	if err := redis.Pause(); err != nil {
		return nil, err
	}
	stopped := time.Now()
	first, err := loaded()
	if err != nil {
		return nil, errors.Join(err, redis.Resume())
	}
	later, err := runLoad(ctx, c, s.Stall-time.Second)
	if err != nil {
		return nil, errors.Join(err, redis.Resume())
	}
	e2e.Pause(ctx, s.Stall-time.Since(stopped))
	if err := redis.Resume(); err != nil {
		return nil, err
	}
	took, err := l.DegradedSince(ctx, region, time.Now())
	if err != nil {
		return nil, err
	}
	r, err := rotation.Wait()
	if err != nil {
		return nil, err
	}
	e2e.Pause(ctx, settleFor)
	after, err := footprintOf(ctx, l, region)
	if err != nil {
		return nil, err
	}
	out := append(promise.Bounded(r), promise.AllAnswered(r),
		promise.None("checks without an answer", first.Failed+later.Failed, first.Examples),
		promise.None("checks decided by a store that did not answer, after the first second", later.Modes["store"], later.Modes),
		promise.AtMost("seconds degraded after the Redis went on", took.Seconds(), 6),
		promise.AtMost("more goroutines afterwards", after.goroutines-before.goroutines, moreGoroutines),
		promise.AtMost("more heap afterwards, MiB", (after.heap-before.heap)/(1<<20), moreHeap/(1<<20)))
	if s.Latencies {
		at := fmt.Sprintf("at %.0f checks/s of %.0f that the machine can do, p99 %.1f ms and median %.1f ms before, of a server that decides nothing %.1f and %.1f: ",
			c.Rate, 2*c.Rate, promise.Milliseconds(usual.Latency.P99), promise.Milliseconds(usual.Latency.P50), promise.Milliseconds(empty.Latency.P99), promise.Milliseconds(empty.Latency.P50))
		out = append(out, promise.Prefixed(at,
			promise.AtMost("p99 of the first second, ms", promise.Milliseconds(first.Latency.P99), 60),
			promise.AtMost(fmt.Sprintf("p99 after it (median %.1f), ms", promise.Milliseconds(later.Latency.P50)), promise.Milliseconds(later.Latency.P99), 5))...)
	}
	return out, l.AwaitLeases(ctx)
}

// manyKeys returns a load of many keys on one region. All but the busiest keys stay within their limit. If latencies
// are promised, it is half of what the machine can do.
func manyKeys(ctx context.Context, l *e2e.Cluster, r *e2e.Region, s promise.Scale) (load.Config, error) {
	c := load.DefaultConfig()
	// Many checks share a connection, so that those that wait hold up none of the next ones,
	// and few connections are opened when a part of the load begins.
	c.Protocol, c.Address, c.Server.Ops = load.GRPC, r.Flag("--grpc-listen"), r.Ops()
	c.Connections, c.Workers, c.Warmup = 16, 1024, 0
	c.Keys, c.Attributes = 10_000, []string{"plan=big", "api_key=load-" + fmt.Sprint(time.Now().UnixNano()) + "-" + load.KeyPlaceholder}
	c.Rate = stallRate
	if !s.Latencies {
		return c, nil
	}
	capacity, err := capacity(ctx, l, c)
	c.Rate = capacity / 2
	return c, err
}

// capacity returns how many checks of a load the machine answers in a second, beside the rest of the scenario's load.
// atOnce checks are under way: enough that the machine is never idle, and few enough that none waits long. With a
// thousand under way each system call would carry dozens, and the machine would do twice as much as when checks come
// one by one.
func capacity(ctx context.Context, l *e2e.Cluster, c load.Config) (float64, error) {
	c.Rate, c.Workers, c.Warmup = 0, atOnce, warmUp
	rotation := clients.Begin(ctx, clients.Paced(l, warmUp+measureFor))
	most, err := runLoad(ctx, c, measureFor)
	_, rotated := rotation.Wait()
	if err := errors.Join(err, rotated); err != nil {
		return 0, err
	}
	return most.ChecksPerSecond, nil
}

// runLoad runs the load for d.
func runLoad(ctx context.Context, c load.Config, d time.Duration) (*load.Report, error) {
	c.Duration = d
	return load.Run(ctx, c)
}

// footprint is how many goroutines a daemon has, and how much memory.
type footprint struct{ goroutines, heap float64 }

func footprintOf(ctx context.Context, l *e2e.Cluster, r *e2e.Region) (f footprint, err error) {
	if f.goroutines, err = l.Metric(ctx, r, "go_goroutines "); err != nil {
		return f, err
	}
	f.heap, err = l.Metric(ctx, r, "go_gc_heap_live_bytes ")
	return f, err
}
