package e2e

import (
	"context"
	"fmt"
	"time"

	"aliquot/internal/bench"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// coordinatorsKilled: without any coordinator the regions serve from their leases
// and then from their floors, and all recovers by itself.
func coordinatorsKilled(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	const settle = 4 * time.Second
	total := settle + s.Outage + s.Run
	rotating, staying := l.load(total), l.load(total)
	rotating.Run = "out-rotate" + fmt.Sprint(time.Now().UnixNano())
	staying.Run = "out-stay" + fmt.Sprint(time.Now().UnixNano())
	staying.Pattern, staying.Rate = bench.Stay, 300
	runs := []*loading{begin(ctx, rotating), begin(ctx, staying)}
	pause(ctx, settle)
	roving, err := l.rights(ctx, rotating.Run)
	if err != nil {
		return nil, err
	}
	alone, err := l.rights(ctx, staying.Run)
	if err != nil {
		return nil, err
	}
	killed := runs[0].at()
	if err := l.killCoordinators(); err != nil {
		return nil, err
	}
	pause(ctx, s.Outage)
	back := runs[0].at()
	recovered, err := l.restartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	out := []Result{atMost("seconds to recover by itself", recovered.Seconds(), 30)}
	for i, rights := range [][]right{roving, alone[:1]} { // who stays is in the first region
		r, err := runs[i].wait()
		if err != nil {
			return nil, err
		}
		least, most := 0., 0.
		for _, one := range rights {
			least, most = least+one.least(back-killed), most+one.most(back-killed)
		}
		got := float64(admittedBetween(r.Series, killed, back))
		out = append(out, prefixed([]string{"rotating: ", "staying: "}[i], append(bounded(r), unfailing(r),
			atMost("admitted / what leases and then floors allow, at most", got/most, 1),
			atLeast("admitted / what leases and then floors allow, at least", got/least, .9-s.Slack))...)...)
	}
	return out, nil
}

// right is what one region may admit of one saturated key in an outage that begins
// now: its share while the lease lasts, the smaller of share and floor after it, and
// at last its floor. A lease has between what its region says is left and T to go.
type right struct {
	share, tokens float64
	left          time.Duration // of the lease, as the region says
	longest       time.Duration // of the lease, as it could be
	down          time.Duration // at the beginning, in which it admits nothing
}

// restarted is the right of a region whose daemon starts again after that time: it
// has no lease.
func (r right) restarted(down time.Duration) right {
	r.left, r.longest, r.down = 0, 0, down
	return r
}

func (r right) least(outage time.Duration) float64 {
	return r.admits(outage-r.down, r.left, floorAfter)
}

// most counts what was in the bucket, what a step of the time series hides, and the
// floor from when the lease must have ended: the region may have heard nothing for
// some time when the outage began.
func (r right) most(outage time.Duration) float64 {
	hidden := max(r.share, floor) * 2 * bucket.Seconds() * big.Refill
	earliest := r.longest
	if r.longest == 0 {
		earliest = floorAfter
	}
	return r.admits(outage, r.longest, earliest) + r.tokens + hidden + 1
}

// admits is of a region whose lease ends, and whose floor begins, after that time.
func (r right) admits(outage, lease, floorFrom time.Duration) float64 {
	leased := min(lease, outage)
	limbo := max(min(floorFrom, outage)-leased, 0)
	return big.Refill * (r.share*leased.Seconds() + min(r.share, floor)*limbo.Seconds() + floor*(outage-leased-limbo).Seconds())
}

// rights are those of each of the cluster's regions for a run's client 0.
func (l *Cluster) rights(ctx context.Context, run string) ([]right, error) {
	b, err := l.anyBudget(ctx, bigRule, map[string]string{"api_key": "bench-" + run + "-0"})
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
			out = append(out, right{share: r.Share, tokens: r.Tokens, left: left, longest: lease})
		}
	}
	if len(out) != len(l.Regions) {
		err = fmt.Errorf("the budget names %d regions", len(out))
	}
	return out, err
}

// anyBudget asks the leader, who knows tokens too.
func (l *Cluster) anyBudget(ctx context.Context, rule string, key map[string]string) (*aliquotv1.Budget, error) {
	leader, err := l.someLeader(ctx)
	if err != nil {
		return nil, err
	}
	return l.Budget(ctx, leader, rule, key)
}
