package main

import (
	"context"
	"fmt"

	"aliquot/internal/bench/load"
)

// batchChecks is the specification's whole load of 20 gateways, in checks a second.
const batchChecks = 1_700_000

// memoryStore is the store of a region without Redis.
const memoryStore = "memory"

// batched is CheckBatch, generator and Redis on the same machine.
func (b *bench) batched(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	alone, err := b.startRegion(ctx, memoryStore, ourRules)
	if err != nil {
		return nil, err
	}
	batch := func(name string, keys int, s *server, redis ...*server) *side {
		c := b.config(load.GRPC, s, redis...)
		c.Batch, c.Workers, c.Keys = 256, 8, keys
		return &side{name: name, config: c}
	}
	busy := batch("1,000 keys, Redis", 1000, us, redis)
	memory := batch("100,000 keys, no Redis", 100_000, alone)
	tail := batch("100,000 keys, Redis", 100_000, us, redis)
	if err := b.inTurns(ctx, busy, memory, tail); err != nil {
		return nil, err
	}
	var rows []row
	for _, s := range []*side{busy, memory, tail} {
		rows = append(rows, row{
			what: "CheckBatch of 256 over gRPC, Zipf(1.1), generator included: " + s.name, measured: s.rate() + ", " + s.cpu(),
			against: s.times() + " a call", goal: ">= " + grouped(batchChecks) + " checks/s", met: s.median(load.ChecksPerSecond) >= batchChecks,
		})
	}
	// A key that is asked for less than twice within the life of a lent chunk goes to Redis
	// one by one, and there are too many of those for one core; see docs/benchmarks/history.md.
	rows[len(rows)-1].goal = ""
	return rows, nil
}

// startPlain runs a region over a Redis.
func (b *bench) startPlain(ctx context.Context) (redis, us *server, err error) {
	if redis, err = b.startRedis(ctx); err != nil {
		return nil, nil, err
	}
	us, err = b.startRegion(ctx, redis.url(), ourRules)
	return redis, us, err
}

// transports compares single checks with the floors of what they are carried by.
func (b *bench) transports(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, p := range []load.Protocol{load.Connect, load.HTTP, load.GRPC} {
		floor, err := b.startFloor(ctx, p)
		if err != nil {
			return rows, err
		}
		ours := &side{name: "aliquot", config: b.config(p, us, redis)}
		nothing := &side{name: floor.name, config: b.config(p, floor)}
		if err := b.inTurns(ctx, ours, nothing); err != nil {
			return rows, fmt.Errorf("%s: %w", p, err)
		}
		rows = append(rows, atLeast(names[p]+", against its floor", ours.rate()+", "+ours.cpu(), nothing.rate()+", "+nothing.cpu(),
			ours.against(nothing, load.ChecksPerSecond), ofFloor))
	}
	return rows, nil
}

var names = map[load.Protocol]string{load.Connect: "Connect Check over HTTP/1.1", load.HTTP: "GET /check", load.GRPC: "gRPC Check"}
