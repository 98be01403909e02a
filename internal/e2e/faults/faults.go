package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// leaderKilled: after kill -9 of the leader every check is answered, and shares stay as they were.
func leaderKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Run = "leader" + fmt.Sprint(time.Now().UnixNano())
	key := map[string]string{"api_key": "bench-" + c.Run + "-0"}
	run := clients.Begin(ctx, c)
	e2e.Pause(ctx, s.Run/3)
	leader, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, err
	}
	before, err := l.Budget(ctx, leader, e2e.BigRule, key)
	if err != nil {
		return nil, err
	}
	killed := time.Now()
	if err := leader.Kill9(); err != nil {
		return nil, err
	}
	next, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, l.WithLogs(err)
	}
	took := time.Since(killed)
	after, err := l.Budget(ctx, next, e2e.BigRule, key)
	if err != nil {
		return nil, err
	}
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(leader.Start(), l.AwaitLeases(ctx), l.AwaitAllCoordinators(ctx)); err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r),
		promise.AtMost("seconds to a new leader", took.Seconds(), 5),
		promise.AtMost("largest change of a share over the change of leader", largestChange(before, after), .05),
		promise.AtLeast("utilisation", r.Utilisation.Min, .95-s.Slack)), nil
}

// largestChange returns by how much the share of any region differs in two budgets of a key.
func largestChange(a, b *aliquotv1.Budget) (most float64) {
	if len(a.Regions) != len(b.Regions) || a.Hot != b.Hot {
		return 1
	}
	for i := range a.Regions {
		most = max(most, math.Abs(a.Regions[i].Share-b.Regions[i].Share))
	}
	return most
}

// regionalKilled: kill -9 of one regional daemon costs its region's share while it is down, and nothing else.
func regionalKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	victim := l.Regions[1]
	away := s.Run / 6
	return regionFault(ctx, l, s, victim, away, func() error {
		if err := victim.Kill9(); err != nil {
			return err
		}
		e2e.Pause(ctx, away)
		return victim.Start()
	})
}

// redisFlushed: an emptied Redis is not a full bucket.
func redisFlushed(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	victim := l.Regions[2]
	return regionFault(ctx, l, s, nil, 0, func() error { return l.Flush(victim) })
}

// redisRestarted: a Redis that was killed and comes back empty is not a full bucket. Meanwhile its region answers
// without it.
func redisRestarted(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	redis, away := l.Redis[0], time.Second
	return regionFault(ctx, l, s, nil, away, func() error {
		if err := redis.Kill9(); err != nil {
			return err
		}
		e2e.Pause(ctx, away)
		return redis.Start()
	})
}

// regionFault runs the rotating client and a fault of one region. It compares what was admitted with what the other
// regions' shares allow while the fault lasts. dead is the region whose checks fail meanwhile; nil: none.
func regionFault(ctx context.Context, l *e2e.Cluster, s promise.Scale, dead *e2e.Region, away time.Duration, fault func() error) ([]promise.Result, error) {
	run := clients.Begin(ctx, clients.BigLoad(l, s.Run))
	e2e.Pause(ctx, s.Run/3)
	if err := fault(); err != nil {
		return nil, err
	}
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	if err := l.AwaitLeases(ctx); err != nil {
		return nil, err
	}
	lost := e2e.Floor * e2e.Big.Refill * (away + e2e.Convergence).Seconds()
	allowed := e2e.Big.Bound(r.Duration) - lost
	return append(promise.Bounded(r), promise.AllAnsweredExcept(dead, r),
		promise.AtLeast("admitted / what the surviving shares allow", float64(r.Admitted)/allowed, .9-s.Slack)), nil
}
