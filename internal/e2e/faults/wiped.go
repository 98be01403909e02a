package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// followerWiped: a coordinator that lost its disk is a voter again by itself.
func followerWiped(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return wipe(ctx, l, s, l.Follower)
}

// leaderWiped: a leader that lost its disk is a voter again by itself.
func leaderWiped(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return wipe(ctx, l, s, l.Leader)
}

// wipe kills a coordinator under load, removes its data, starts it again, and checks that its vote counts.
func wipe(ctx context.Context, l *e2e.Cluster, s promise.Scale, pick func(context.Context) (*e2e.Coordinator, error)) ([]promise.Result, error) {
	run := clients.Begin(ctx, clients.BigLoad(l, s.Run))
	e2e.Pause(ctx, s.Run/4)
	victim, err := pick(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(victim.Kill9(), os.RemoveAll(victim.DataDir)); err != nil {
		return nil, err
	}
	killed := time.Now()
	before, err := leadersStatus(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := victim.Start(); err != nil {
		return nil, err
	}
	err = e2e.Until(ctx, e2e.ReadyWithin, victim.Name+" a voter again", func() error { return voter(ctx, l, victim, before.AppliedIndex) })
	if err != nil {
		return nil, l.WithLogs(err)
	}
	took := time.Since(killed)
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	counts, err := voteCounts(ctx, l, victim)
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.AtLeast("utilisation", r.Utilisation.Min, .95-s.Slack),
		promise.AtMost("seconds from kill -9 until it is a voter again, without a command", took.Seconds(), 30),
		promise.AtMost("seconds until a rule change commits that needs its vote", counts.Seconds(), 15)), nil
}

// leadersStatus waits for a leader, and returns its status of the cluster.
func leadersStatus(ctx context.Context, l *e2e.Cluster) (status *aliquotv1.GetStatusResponse, err error) {
	err = e2e.Until(ctx, e2e.ReadyWithin, "led", func() error {
		leader, err := l.Leader(ctx)
		if err == nil {
			status, err = l.Status(ctx, leader)
		}
		return err
	})
	return status, err
}

// voter returns nil when the leader and the node itself list it once, as a voter, and both have applied more than
// index, which was applied when it was killed. Before that, the list may show the node that was lost.
func voter(ctx context.Context, l *e2e.Cluster, c *e2e.Coordinator, index uint64) error {
	leader, err := l.Leader(ctx)
	if err != nil {
		return err
	}
	for _, at := range []*e2e.Coordinator{leader, c} {
		status, err := l.Status(ctx, at)
		if err != nil {
			return err
		}
		var as []string
		for _, m := range status.Members {
			if m.NodeId == c.Name {
				as = append(as, m.Suffrage)
			}
		}
		if len(as) != 1 || as[0] != "voter" || status.AppliedIndex <= index {
			return fmt.Errorf("%s lists it as %q at index %d", at.Name, as, status.AppliedIndex)
		}
	}
	return nil
}

// voteCounts kills another coordinator: the two that remain of three can commit only together. It returns the time to
// the next commit.
func voteCounts(ctx context.Context, l *e2e.Cluster, c *e2e.Coordinator) (time.Duration, error) {
	other := l.Coordinators[0]
	if other == c {
		other = l.Coordinators[1]
	}
	if err := other.Kill9(); err != nil {
		return 0, err
	}
	began := time.Now()
	err := e2e.Until(ctx, e2e.ReadyWithin, "committing with "+c.Name, func() error {
		if _, err := l.Leader(ctx); err != nil {
			return err
		}
		return l.CommitRules(ctx, c)
	})
	if err != nil {
		return 0, l.WithLogs(err)
	}
	took := time.Since(began)
	return took, errors.Join(other.Start(), l.AwaitLeases(ctx), l.AwaitAllCoordinators(ctx))
}
