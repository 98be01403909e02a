package main

import (
	"context"
	"fmt"

	"aliquot/internal/bench/load"
)

// units measures what one of each costs, for `aliquot capacity`: two loads that differ in
// one thing tell what that thing costs.
func (b *bench) units(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	load1 := func(name string, batch, keys, workers int, attributes ...string) *side {
		s := &side{name: name, config: b.config(load.GRPC, us, redis)}
		s.config.Batch, s.config.Keys, s.config.Zipf, s.config.Attributes = batch, keys, 0, attributes
		s.config.Workers, s.config.Connections = workers, min(workers, s.config.Connections)
		return s
	}
	const few, many, batch, coldBatch = 16, 10_000_000, 256, 64
	single := load1("few keys, single checks", 1, few, 64, "api_key=k"+load.KeyPlaceholder)
	batches := load1("few keys, batches", batch, few, 4, "api_key=k"+load.KeyPlaceholder)
	twice := load1("few keys, batches, two limits", batch, few, 4, "api_key=k"+load.KeyPlaceholder, "plan=two")
	cold := load1("cold keys, batches", coldBatch, many, 16, "api_key=cold"+load.KeyPlaceholder)
	alone := load1("cold keys, one call at a time", 1, many, 1, "api_key=cold"+load.KeyPlaceholder)
	if err := b.inTurns(ctx, single, batches, twice, cold, alone); err != nil {
		return nil, err
	}
	cpu := func(s *side) float64 { return s.median(load.ServerCPU) } // microseconds of a check
	call := (cpu(single) - cpu(batches)) / (1 - 1./batch)
	check := cpu(batches) - call/batch
	redisCall := (alone.median(load.RedisCPU) - cold.median(load.RedisCPU)) / (alone.median(load.RedisCalls) - cold.median(load.RedisCalls))
	unit := func(name string, value float64, from string) row {
		return row{what: "unit cost " + name, measured: fmt.Sprintf("%.2f", value), against: from}
	}
	return []row{
		unit("call_us", call, fmt.Sprintf("single checks of %d keys %s, batches of %d %s", few, single.cpu(), batch, batches.cpu())),
		unit("check_us", check, fmt.Sprintf("%.4f calls to Redis a check", batches.median(load.RedisCalls))),
		unit("limit_us", cpu(twice)-cpu(batches), "two limits "+twice.cpu()),
		unit("store_us", cpu(cold)-check-call/coldBatch, fmt.Sprintf("cold keys, batches of %d %s", coldBatch, cold.cpu())),
		unit("redis_call_us", redisCall, fmt.Sprintf("one call at a time %s, %.3f and %.3f calls a check", alone.cpu(), alone.median(load.RedisCalls), cold.median(load.RedisCalls))),
		unit("redis_limit_us", cold.median(load.RedisCPU)-redisCall*cold.median(load.RedisCalls), "the rest of it"),
	}, nil
}
