package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// followerWiped: a coordinator that lost its disk is a voter again by itself.
func followerWiped(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	return l.wiped(ctx, s, l.follower)
}

// leaderWiped: so is the leader.
func leaderWiped(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	return l.wiped(ctx, s, l.Leader)
}

// wiped kills a coordinator under load, removes its data, starts it again, and sees
// that its vote counts.
func (l *Cluster) wiped(ctx context.Context, s Scale, pick func(context.Context) (*Coordinator, error)) ([]Result, error) {
	run := begin(ctx, l.load(s.Run))
	pause(ctx, s.Run/4)
	victim, err := pick(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(victim.Kill9(), os.RemoveAll(victim.dataDir)); err != nil {
		return nil, err
	}
	killed := time.Now()
	before, err := l.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	if err := victim.Start(); err != nil {
		return nil, err
	}
	err = until(ctx, readyWithin, victim.Name+" a voter again", func() error { return l.voter(ctx, victim, before.AppliedIndex) })
	if err != nil {
		return nil, l.withLogs(err)
	}
	took := time.Since(killed)
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	counts, err := l.voteCounts(ctx, victim)
	if err != nil {
		return nil, err
	}
	return append(bounded(r), unfailing(r), atLeast("utilisation", r.Utilisation.Min, .95-s.Slack),
		atMost("seconds from kill -9 until it is a voter again, without a command", took.Seconds(), 30),
		atMost("seconds until a rule change commits that needs its vote", counts.Seconds(), 15)), nil
}

// awaitLeader is what the leader says of the cluster, once there is one.
func (l *Cluster) awaitLeader(ctx context.Context) (status *aliquotv1.GetStatusResponse, err error) {
	err = until(ctx, readyWithin, "led", func() error {
		leader, err := l.Leader(ctx)
		if err == nil {
			status, err = l.Status(ctx, leader)
		}
		return err
	})
	return status, err
}

// voter returns nil when the leader and the node itself list it as a voter, once,
// and it has applied more than this index, which was applied when it died: before
// that it may know of the voter that was lost, not of itself.
func (l *Cluster) voter(ctx context.Context, c *Coordinator, index uint64) error {
	leader, err := l.Leader(ctx)
	if err != nil {
		return err
	}
	for _, at := range []*Coordinator{leader, c} {
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

// voteCounts stops another coordinator: of three, the two that remain can commit
// only together. It returns the time to the next commit.
func (l *Cluster) voteCounts(ctx context.Context, c *Coordinator) (time.Duration, error) {
	other := l.Coordinators[0]
	if other == c {
		other = l.Coordinators[1]
	}
	if err := other.Kill9(); err != nil {
		return 0, err
	}
	began := time.Now()
	err := until(ctx, readyWithin, "committing with "+c.Name, func() error {
		if _, err := l.Leader(ctx); err != nil {
			return err
		}
		return l.commitRules(ctx, c)
	})
	if err != nil {
		return 0, l.withLogs(err)
	}
	took := time.Since(began)
	return took, errors.Join(other.Start(), l.AwaitLeases(ctx), l.awaitAllCoordinators(ctx))
}
