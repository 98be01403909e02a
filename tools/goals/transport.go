package main

import (
	"context"
	"fmt"

	"aliquot/bench/load"
)

// batchChecks is the specification's whole load of 20 gateways, in checks a second.
const batchChecks = 1_700_000

// batched is CheckBatch, generator and Redis on the same machine.
func (b *bench) batched(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	ours := &side{name: "aliquot", config: b.config(load.GRPC, us, redis)}
	ours.config.Batch, ours.config.Workers = 256, 16
	if err := b.inTurns(ctx, ours); err != nil {
		return nil, err
	}
	rate := ours.median(load.ChecksPerSecond)
	return []row{{
		what: "CheckBatch of 256 over gRPC, Zipf(1.1), generator included", measured: ours.rate() + ", " + ours.cpu(),
		against: ours.times() + " a call", goal: ">= " + grouped(batchChecks) + " checks/s", met: rate >= batchChecks,
	}}, nil
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
