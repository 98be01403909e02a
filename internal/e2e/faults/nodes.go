package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
)

const (
	// smallDemand is how many checks a second each client of these scenarios sends: twice its limit.
	smallDemand = 4
	// burstCost is the cost of each check before the node is lost. By then it has used up the bursts, so clients get
	// what their buckets earn.
	burstCost = 5
	// stays is how long a client asks one region before it moves to the other one. So shares move all the time, also in
	// the region whose store has lost a node.
	stays = 5 * time.Second
	// noticed is the time in which a region notices that a node is lost.
	noticed = 2 * time.Second
	// leaseLeft is the least that remains of a lease which is renewed. A session that ends while a directive is on its
	// way costs two seconds of it.
	leaseLeft = 5 * time.Second
	// nodeClients is the number of clients. Some are on the lost node, by their records: once in some hundred thousand
	// runs their part is outside of leastOnNode and mostOnANode.
	nodeClients              = 120
	leastOnNode, mostOnANode = .15, .55
)

// nodeStopped: one of a Redis Cluster's three nodes does not answer, for longer than a lease. The region decides for
// the node's clients without it, and no other client notices.
func nodeStopped(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return nodeLost(ctx, l, s, (*e2e.Process).Pause, (*e2e.Process).Resume)
}

// nodeKilled is nodeStopped with a node that loses its contents.
func nodeKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	return nodeLost(ctx, l, s, (*e2e.Process).Kill9, (*e2e.Process).Start)
}

// nodeLost runs nodeStopped and nodeKilled: lose takes the node away, and restore brings it back.
func nodeLost(ctx context.Context, l *e2e.Cluster, s promise.Scale, lose, restore func(*e2e.Process) error) (out []promise.Result, err error) {
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
	r := newRoaming(l, nodeClients)
	r.cost = burstCost
	r.ask(ctx, 2*stays)
	r.cost = 1
	if err := lose(servers[0]); err != nil {
		return nil, err
	}
	r.ask(ctx, noticed)
	found := len(r.seen)
	shortest := r.ask(ctx, s.Outage)
	lost := r.seen[found:]
	if err := restore(servers[0]); err != nil {
		return nil, err
	}
	took, err := l.DegradedSince(ctx, region, time.Now())
	if err != nil {
		return nil, err
	}
	onNode, wrongly := r.degraded(lost)
	others := float64(nodeClients-len(onNode)) / 2 * smallDemand * s.Outage.Seconds() // half of them ask this region
	part := float64(len(onNode)) / nodeClients
	most := float64(e2e.Small.Refill) * s.Outage.Seconds() * float64(nodeClients-len(onNode))
	return []promise.Result{
		promise.None("checks without an answer", r.failed, r.failure),
		promise.AtLeast("part of the clients that stand on the node", part, leastOnNode),
		promise.AtMost("part of the clients that stand on the node, at most", part, mostOnANode),
		promise.AtMost("part of the checks of other clients that is decided without the store", float64(wrongly)/others, .01+s.Slack),
		promise.AtLeast("lease of the region at its shortest, s", shortest.Seconds(), leaseLeft.Seconds()),
		promise.AtLeast("part of their limit that other clients had, who change regions all the time",
			float64(admittedExcept(lost, onNode))/most, .8-s.Slack),
		promise.AtMost("seconds degraded after the node was back", took.Seconds(), 6),
	}, nil
}
