package faults

import (
	"context"
	"fmt"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// coordinatorsKilled: without any coordinator each region enforces its shares while its lease lasts, and then its
// floor. When the coordinators come back, the regions recover by themselves.
func coordinatorsKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	p, err := beginPair(ctx, l, "out", pairSettles+s.Outage+s.Run)
	if err != nil {
		return nil, err
	}
	runs := []*clients.Loading{p.rotating, p.staying}
	killed := runs[0].At()
	if err := l.KillCoordinators(); err != nil {
		return nil, err
	}
	e2e.Pause(ctx, s.Outage)
	back := runs[0].At()
	recovered, err := l.RestartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	out := []promise.Result{promise.AtMost("seconds to recover by itself", recovered.Seconds(), 30)}
	for i, rights := range [][]right{p.rotatingRights, p.stayingRights[:1]} { // the staying client asks the first region alone
		r, err := runs[i].Wait()
		if err != nil {
			return nil, err
		}
		least, most := 0., 0.
		for _, one := range rights {
			least, most = least+one.least(back-killed), most+one.most(back-killed)
		}
		got := float64(clients.AdmittedBetween(r.Series, killed, back))
		out = append(out, promise.Prefixed([]string{"rotating: ", "staying: "}[i], append(promise.Bounded(r), promise.AllAnswered(r),
			promise.AtMost("admitted / what leases and then floors allow, at most", got/most, 1),
			promise.AtLeast("admitted / what leases and then floors allow, at least", got/least, .9-s.Slack))...)...)
	}
	return out, nil
}

// pairSettles is how long the clients of a pair ask before an outage.
const pairSettles = 4 * time.Second

// pair is a client that rotates over the regions, and one that stays in the first of them.
type pair struct {
	rotating, staying *clients.Loading
	stays             bench.Config // of the client that stays
	// What each region may admit of each client, pairSettles after the beginning.
	rotatingRights, stayingRights []right
}

// beginPair begins a pair of runs and waits for pairSettles. name is the prefix of the runs' names.
func beginPair(ctx context.Context, l *e2e.Cluster, name string, total time.Duration) (p pair, err error) {
	unique := fmt.Sprint(time.Now().UnixNano())
	rotates := clients.BigLoad(l, total)
	p.stays = clients.BigLoad(l, total)
	rotates.Run, p.stays.Run = name+"-rotate"+unique, name+"-stay"+unique
	p.stays.Pattern, p.stays.Rate = bench.Stay, 300
	p.rotating, p.staying = clients.Begin(ctx, rotates), clients.Begin(ctx, p.stays)
	e2e.Pause(ctx, pairSettles)
	if p.rotatingRights, err = rights(ctx, l, rotates.Run); err == nil {
		p.stayingRights, err = rights(ctx, l, p.stays.Run)
	}
	return p, err
}

// right is what one region may admit of one saturated key in an outage that begins now: its share while the lease
// lasts, then the smaller of share and floor, and at last its floor. The lease ends between left and longest from now.
type right struct {
	share, tokens float64
	left          time.Duration // until the lease ends, by the region's clock
	longest       time.Duration // until the lease ends, at most
	down          time.Duration // at the beginning, without any check
}

// restarted returns the right of a region whose daemon is down first, and then has no lease.
func (r right) restarted(down time.Duration) right {
	r.left, r.longest, r.down = 0, 0, down
	return r
}

// least returns the least that the region admits of the key.
func (r right) least(outage time.Duration) float64 {
	return r.admits(outage-r.down, r.left, e2e.FloorAfter)
}

// most returns the most that the region may admit. It includes the bucket's tokens and what a step of the time series
// hides. The floor begins as early as the lease can end, because the last answer may be older than the outage.
func (r right) most(outage time.Duration) float64 {
	hidden := max(r.share, e2e.Floor) * 2 * clients.Bucket.Seconds() * e2e.Big.Refill
	earliest := r.longest
	if r.longest == 0 {
		earliest = e2e.FloorAfter
	}
	return r.admits(outage, r.longest, earliest) + r.tokens + hidden + 1
}

// admits returns what a region's rate admits if its lease ends after lease, and its floor begins after floorFrom.
func (r right) admits(outage, lease, floorFrom time.Duration) float64 {
	leased := min(lease, outage)
	limbo := max(min(floorFrom, outage)-leased, 0)
	return e2e.Big.Refill * (r.share*leased.Seconds() + min(r.share, e2e.Floor)*limbo.Seconds() + e2e.Floor*(outage-leased-limbo).Seconds())
}

// rights returns the right of each of the cluster's regions to the key of a run's client 0.
func rights(ctx context.Context, l *e2e.Cluster, run string) ([]right, error) {
	b, err := leadersBudget(ctx, l, e2e.BigRule, map[string]string{"api_key": "bench-" + run + "-0"})
	if err != nil {
		return nil, err
	}
	var out []right
	for _, region := range l.Regions {
		for _, r := range b.Regions {
			if r.Region != region.Region {
				continue
			}
			left, err := l.Lease(ctx, region)
			if err != nil {
				return nil, err
			}
			out = append(out, right{share: r.Share, tokens: r.Tokens, left: left, longest: e2e.Lease})
		}
	}
	if len(out) != len(l.Regions) {
		err = fmt.Errorf("the budget names %d regions", len(out))
	}
	return out, err
}

// leadersBudget returns a key's budget from the leader, which also knows the tokens.
func leadersBudget(ctx context.Context, l *e2e.Cluster, rule string, key map[string]string) (*aliquotv1.Budget, error) {
	leader, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, err
	}
	return l.Budget(ctx, leader, rule, key)
}
