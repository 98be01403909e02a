package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// leaderKilled: kill -9 of the leader costs no check and no budget.
func leaderKilled(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	c := l.load(s.Run)
	c.Run = "leader" + fmt.Sprint(time.Now().UnixNano())
	key := map[string]string{"api_key": "bench-" + c.Run + "-0"}
	run := begin(ctx, c)
	pause(ctx, s.Run/3)
	leader, err := l.someLeader(ctx)
	if err != nil {
		return nil, err
	}
	before, err := l.Budget(ctx, leader, bigRule, key)
	if err != nil {
		return nil, err
	}
	killed := time.Now()
	if err := leader.Kill9(); err != nil {
		return nil, err
	}
	next, err := l.someLeader(ctx)
	if err != nil {
		return nil, l.withLogs(err)
	}
	took := time.Since(killed)
	after, err := l.Budget(ctx, next, bigRule, key)
	if err != nil {
		return nil, err
	}
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(leader.Start(), l.AwaitLeases(ctx), l.awaitAllCoordinators(ctx)); err != nil {
		return nil, err
	}
	return append(bounded(r), unfailing(r),
		atMost("seconds to a new leader", took.Seconds(), 5),
		atMost("largest change of a share over the change of leader", largestChange(before, after), .05),
		atLeast("utilisation", r.Utilisation.Min, .95-s.Slack)), nil
}

func largestChange(a, b *aliquotv1.Budget) (most float64) {
	if len(a.Regions) != len(b.Regions) || a.Hot != b.Hot {
		return 1
	}
	for i := range a.Regions {
		most = max(most, math.Abs(a.Regions[i].Share-b.Regions[i].Share))
	}
	return most
}

// regionalKilled: kill -9 of one regional daemon costs its own region's share while
// it is away, and nothing else.
func regionalKilled(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	victim := l.Regions[1]
	away := s.Run / 6
	return l.regionFault(ctx, s, victim, away, func() error {
		if err := victim.Kill9(); err != nil {
			return err
		}
		pause(ctx, away)
		return victim.Start()
	})
}

// redisFlushed: an emptied Redis is not a full bucket.
func redisFlushed(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	victim := l.Regions[2]
	return l.regionFault(ctx, s, nil, 0, func() error { return l.Flush(victim) })
}

// redisRestarted: nor is one that was killed and comes back empty; meanwhile its
// region answers by itself.
func redisRestarted(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	redis, away := l.Redis[0], time.Second
	return l.regionFault(ctx, s, nil, away, func() error {
		if err := redis.Kill9(); err != nil {
			return err
		}
		pause(ctx, away)
		return redis.Start()
	})
}

// regionFault runs the rotation, breaks something of one region in it, and compares
// with what the other regions' shares allow for as long as the fault lasts. dead is
// the region whose checks fail meanwhile, if any.
func (l *Cluster) regionFault(ctx context.Context, s Scale, dead *Region, away time.Duration, fault func() error) ([]Result, error) {
	run := begin(ctx, l.load(s.Run))
	pause(ctx, s.Run/3)
	if err := fault(); err != nil {
		return nil, err
	}
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	if err := l.AwaitLeases(ctx); err != nil {
		return nil, err
	}
	lost := floor * big.Refill * (away + convergence).Seconds()
	allowed := big.Bound(r.Duration) - lost
	return append(bounded(r), unfailingBut(r, dead),
		atLeast("admitted / what the surviving shares allow", float64(r.Admitted)/allowed, .9-s.Slack)), nil
}
