package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/bench/load"
)

const (
	coldP99 = time.Millisecond
	// Redis calls a check, of Zipf traffic and of one key.
	zipfCalls, hotCalls = .6, .05
	hotRate             = 100_000 // checks a second of the hot key
	othersRate          = 4_000   // of all others together
	othersP99           = 1.2
	flat                = 1.25 // what counts as a cost that does not grow, on a machine with caches
)

// cold keys go through the store each time: at half of what the daemon can do. A server that
// decides nothing gets the same load in turns, for what the machine alone makes of it.
func (b *bench) cold(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	floor, err := b.startFloor(ctx, load.GRPC)
	if err != nil {
		return nil, err
	}
	most := &side{name: "closed loop", config: coldKeys(b.config(load.GRPC, us, redis), 1_000_000)}
	if err := b.inTurns(ctx, most); err != nil {
		return nil, err
	}
	half := &side{name: "half load", config: most.config}
	half.config.Rate = most.median(load.ChecksPerSecond) / 2
	nothing := &side{name: floor.name, config: coldKeys(b.config(load.GRPC, floor), 1_000_000)}
	nothing.config.Rate = half.config.Rate
	if err := b.inTurns(ctx, half, nothing); err != nil {
		return nil, err
	}
	const what = "cold keys through Redis, half load, gRPC"
	p99, beside := half.median(load.P99), half.against(nothing, load.P99)
	return []row{
		{what: what, measured: half.rate() + ", " + half.times(), against: "closed loop " + most.rate() + ", " + most.cpu(), goal: "p99 < 1 ms", met: p99 < coldP99.Seconds()},
		{what: what + ": p99 against the floor's at that rate", measured: half.times(), against: nothing.times(), ratio: fmt.Sprintf("%.2fx", beside)},
	}, nil
}

// coldKeys makes a load of keys that are all alike and never held in the daemon.
func coldKeys(c load.Config, keys int) load.Config {
	c.Attributes, c.Keys, c.Zipf = []string{"api_key=cold" + load.KeyPlaceholder}, keys, 0
	return c
}

// calls counts Redis calls a check, of single checks and of batches.
func (b *bench) calls(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	zipf := &side{name: "Zipf", config: b.config(load.GRPC, us, redis)}
	hot := &side{name: "one key", config: zipf.config}
	hot.config.HotKey = 100
	if err := b.inTurns(ctx, zipf, hot); err != nil {
		return nil, err
	}
	of := func(what string, s *side, most float64) row {
		n := s.median(load.RedisCalls)
		return row{what: what, measured: fmt.Sprintf("%.4f calls a check", n), against: s.rate(), goal: fmt.Sprintf("<= %.2f", most), met: n <= most}
	}
	return []row{of("Redis calls, gRPC Check, Zipf(1.1)", zipf, zipfCalls), of("Redis calls, gRPC Check, one key", hot, hotCalls)}, nil
}

// hotKey asks what one key at a high rate does to all others. What it costs the machine
// they would feel wherever it was decided: so it is put to another daemon, too, with a
// Redis of its own, and what is worse than that is the work of the daemon they share.
func (b *bench) hotKey(ctx context.Context) ([]row, error) {
	redis, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	otherRedis, other, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	alone := &side{name: "others alone", config: b.config(load.GRPC, us)}
	alone.config.Rate, alone.config.Zipf, alone.config.Keys = othersRate, 0, 10_000
	beside := &side{name: "others beside the hot key", config: alone.config}
	apart := &side{name: "others beside a hot key of another daemon", config: alone.config}
	hot := &side{name: "hot key", config: hotLoad(b.config(load.GRPC, us, redis))}
	elsewhere := &side{name: "hot key of another daemon", config: hotLoad(b.config(load.GRPC, other, otherRedis))}
	for range b.pairs {
		if err := errors.Join(b.once(ctx, alone), b.together(ctx, beside, hot), b.together(ctx, apart, elsewhere)); err != nil {
			return nil, err
		}
	}
	n := hot.median(load.RedisCalls)
	processor := atMost("the same against such a key of another daemon on this machine", beside.times(), apart.times(), beside.against(apart, load.P99), othersP99)
	processor.goal = "" // it explains the row above
	return []row{
		atMost(fmt.Sprintf("p99 of other keys beside one at %s checks/s by CheckBatch", grouped(hot.median(load.ChecksPerSecond))),
			beside.times(), alone.times(), beside.against(alone, load.P99), othersP99),
		processor,
		{what: "Redis calls beside it, all keys, for each check of the hot key", measured: fmt.Sprintf("%.4f", n),
			against: fmt.Sprintf("%d checks/s of others, %.4f each", othersRate, float64(othersRate)/hotRate), goal: ""},
	}, nil
}

// hotLoad makes a load of one key at a high rate.
func hotLoad(c load.Config) load.Config {
	c.Attributes, c.Rate = []string{"api_key=khot"}, hotRate
	c.Batch, c.Connections, c.Workers = 100, 1, 16
	return c
}

// together runs two sides once, at once.
func (b *bench) together(ctx context.Context, s, beside *side) error {
	ended := make(chan error, 1)
	go func() { ended <- b.once(ctx, beside) }()
	err := b.once(ctx, s)
	return errors.Join(err, <-ended)
}

// once runs one side once.
func (b *bench) once(ctx context.Context, s *side) error {
	one := *b
	one.pairs = 1
	return one.inTurns(ctx, s)
}

// growth is what a check costs with more and more keys in Redis; filler keys are made by
// Redis itself, since only their number counts.
func (b *bench) growth(ctx context.Context) ([]row, error) {
	redisServer, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: redisServer.address, DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	var rows []row
	var first *side
	for _, keys := range []int{1_000, 100_000, 10_000_000} {
		if err := client.Do(ctx, "debug", "populate", keys, "filler", 64).Err(); err != nil {
			return rows, fmt.Errorf("fill Redis: %w", err)
		}
		// Redis answers nobody meanwhile, and the daemon tries it again after a while.
		if err := us.until(ctx, func() error { return b.leased(us.ops) }); err != nil {
			return rows, err
		}
		s := &side{name: grouped(float64(keys)) + " keys", config: coldKeys(b.config(load.GRPC, us, redisServer), keys)}
		s.config.Batch, s.config.Workers = 64, 16
		if err := b.inTurns(ctx, s); err != nil {
			return rows, err
		}
		if first == nil {
			first = s
		}
		whole := func(r *load.Report) float64 { return r.ServerCPU + r.RedisCPU }
		rows = append(rows, atMost("cost of a check with "+s.name+" in Redis", s.cpu(), first.cpu(), s.median(whole)/first.median(whole), flat))
	}
	return rows, nil
}

// redisBytes is what a cold key takes of Redis's whole memory.
func (b *bench) redisBytes(ctx context.Context) ([]row, error) {
	const mostBytes = 149 // redis_rate's
	redisServer, us, err := b.startPlain(ctx)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: redisServer.address, DisableIdentity: true})
	defer client.Close()
	before, err := memory(ctx, client)
	if err != nil {
		return nil, err
	}
	c := coldKeys(b.config(load.GRPC, us), 10_000_000)
	c.Batch, c.Workers, c.Duration = 256, 16, 5*b.slice
	if _, err := load.Run(ctx, c); err != nil {
		return nil, err
	}
	after, err := memory(ctx, client)
	if err != nil {
		return nil, err
	}
	n, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	each := float64(after-before) / float64(max(n, 1))
	sample, err := client.RandomKey(ctx).Result()
	if err != nil {
		return nil, err
	}
	own, err := client.MemoryUsage(ctx, sample).Result()
	if err != nil {
		return nil, err
	}
	return []row{{what: "bytes for a cold key in Redis", measured: fmt.Sprintf("%d by MEMORY USAGE; %.0f of used_memory, %s keys", own, each, grouped(float64(n))),
		goal: fmt.Sprintf("<= %d", mostBytes), met: own <= mostBytes}}, nil
}

func memory(ctx context.Context, client *redis.Client) (bytes int64, err error) {
	text, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "used_memory:")
	_, err = fmt.Sscan(rest, &bytes)
	return bytes, err
}
