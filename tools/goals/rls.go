package main

import (
	"context"
	"fmt"

	"aliquot/internal/bench/load"
)

// Goals against envoyproxy/ratelimit and the floor.
const (
	rlsChecks = 2.2
	rlsCPU    = .40
	rlsP99    = .5
	ofFloor   = .85
)

// rls compares Envoy's protocol with envoyproxy/ratelimit and with the floor, each over a
// Redis of its own of the same kind.
func (b *bench) rls(ctx context.Context, descriptors int) ([]row, error) {
	redis, err := b.startRedis(ctx)
	if err != nil {
		return nil, err
	}
	peerRedis, err := b.startRedis(ctx)
	if err != nil {
		return nil, err
	}
	us, err := b.startRegion(ctx, redis.url(), ourRules)
	if err != nil {
		return nil, err
	}
	peer, err := b.startPeer(ctx, peerRedis)
	if err != nil {
		return nil, err
	}
	floor, err := b.startFloor(ctx, load.RLS)
	if err != nil {
		return nil, err
	}
	ours := &side{name: "aliquot", config: b.config(load.RLS, us, redis)}
	theirs := &side{name: peer.name, config: b.config(load.RLS, peer, peerRedis)}
	nothing := &side{name: floor.name, config: b.config(load.RLS, floor)}
	for _, s := range []*side{ours, theirs, nothing} {
		s.config.Descriptors = descriptors
	}
	if err := b.inTurns(ctx, ours, theirs, nothing); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("RLS, %d descriptors, against envoyproxy/ratelimit", descriptors)
	rows := []row{atLeast(what, ours.rate(), theirs.rate(), ours.against(theirs, load.ChecksPerSecond), rlsChecks)}
	cpu := atMost(what+": server CPU", ours.cpu(), theirs.cpu(), ours.against(theirs, load.ServerCPU), rlsCPU)
	p99 := atMost(what+": p99", ours.times(), theirs.times(), ours.against(theirs, load.P99), rlsP99)
	floored := atLeast(fmt.Sprintf("RLS, %d descriptors, against the grpc-go floor", descriptors), ours.rate(), nothing.rate(),
		ours.against(nothing, load.ChecksPerSecond), ofFloor)
	if descriptors > 1 { // not goals, but worth knowing
		cpu.goal, p99.goal, floored.goal = "", "", ""
	}
	return append(rows, cpu, p99, floored), nil
}
