package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
)

const (
	// smallDemand is what each client of these scenarios asks for a second, twice its limit.
	smallDemand = 4
	// burstCost is what each check asks for before the node is lost, so that the bursts are used
	// up by then, and clients have what they earn.
	burstCost = 5
	// stays is for how long a client asks in one region before it goes to the other one: so
	// shares move all the time, in the region whose store has lost a node, too.
	stays = 5 * time.Second
	// foundOut is the time that a region gets to find out about a node.
	foundOut = 2 * time.Second
	// leaseLeft is what a region's lease has left at the least as long as it is renewed: a
	// session that ended for a directive which was on its way costs two seconds of it.
	leaseLeft = 5 * time.Second
	// nodeClients are as many that the part of them which stands on one node of three is
	// between 0.15 and 0.55 but once in some hundred thousand runs.
	nodeClients              = 120
	leastOnNode, mostOnANode = .15, .55
)

// nodeStopped: one of a Redis Cluster's three nodes does not answer, for longer than a lease.
// Its clients' limits are decided without it, and nobody else notices.
func nodeStopped(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return nodeLost(ctx, l, s, (*e2e.Process).Pause, (*e2e.Process).Resume)
}

// nodeKilled is nodeStopped with a node that loses what it knew.
func nodeKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return nodeLost(ctx, l, s, (*e2e.Process).Kill9, (*e2e.Process).Start)
}

func nodeLost(ctx context.Context, l *e2e.Cluster, s promise.Scale, lose, bring func(*e2e.Process) error) (out []promise.Result, err error) {
	region := l.Regions[0]
	servers, url, err := l.StartRedisCluster(ctx)
	defer e2e.EndAll(servers)
	if err != nil {
		return nil, err
	}
	back, err := l.LendStore(ctx, region, url)
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return nil, err
	}
	w := newRoaming(l, nodeClients)
	w.cost = burstCost
	w.ask(ctx, 2*stays)
	w.cost = 1
	if err := lose(servers[0]); err != nil {
		return nil, err
	}
	w.ask(ctx, foundOut)
	found := len(w.seen)
	shortest := w.ask(ctx, s.Outage)
	lost := w.seen[found:]
	if err := bring(servers[0]); err != nil {
		return nil, err
	}
	took, err := l.DegradedSince(ctx, region, time.Now())
	if err != nil {
		return nil, err
	}
	onNode, wrongly := w.degraded(lost)
	others := float64(nodeClients-len(onNode)) / 2 * smallDemand * s.Outage.Seconds() // half of them are there
	part := float64(len(onNode)) / nodeClients
	most := float64(e2e.Small.Refill) * s.Outage.Seconds() * float64(nodeClients-len(onNode))
	return []promise.Result{
		promise.None("checks without an answer", w.failed, w.failure),
		promise.AtLeast("part of the clients that stand on the node", part, leastOnNode),
		promise.AtMost("part of the clients that stand on the node, at most", part, mostOnANode),
		promise.AtMost("part of the checks of other clients that is decided without the store", float64(wrongly)/others, .01+s.Slack),
		promise.AtLeast("lease of the region at its shortest, s", shortest.Seconds(), leaseLeft.Seconds()),
		promise.AtLeast("part of their limit that other clients had, who change regions all the time",
			float64(admittedBy(lost, onNode))/most, .8-s.Slack),
		promise.AtMost("seconds degraded after the node was back", took.Seconds(), 6),
	}, nil
}
