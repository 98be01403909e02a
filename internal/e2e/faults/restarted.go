package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// restartedAlone: all coordinators and one regional daemon die; the daemon comes
// back and knows nothing but its state file and its Redis. It serves the smaller of
// share and floor until every lease that covers what it lent is over, then its
// floor. One client rotates; the other was in the first region only, so that the
// restarted one had lent its part, and turns to that too.
func restartedAlone(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	victim, total := l.Regions[1], pairSettles+s.Outage+s.Run
	if err := victim.ForgetDaemons(); err != nil { // of scenarios before this one
		return nil, err
	}
	p, err := beginPair(ctx, l, "alone", total)
	if err != nil {
		return nil, err
	}
	here, there := p.rotating, p.staying
	killed := here.At()
	if err := errors.Join(l.KillCoordinators(), victim.Kill9(), victim.Start(), l.AwaitRules(ctx, victim)); err != nil {
		return nil, err
	}
	down := here.At() - killed
	late := p.stays
	late.Regions, late.Duration = []string{victim.Address}, total-here.At()
	too := clients.Begin(ctx, late)
	e2e.Pause(ctx, s.Outage-down)
	back := here.At()
	recovered, err := l.RestartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]*bench.Report, 3)
	for i, run := range []*clients.Loading{here, there, too} {
		if reports[i], err = run.Wait(); err != nil {
			return nil, err
		}
	}
	of := func(i int, began time.Time) float64 {
		offset := here.Began.Sub(began)
		return float64(clients.AdmittedBetween(reports[i].Series, killed+offset, back+offset))
	}
	outage := back - killed
	least, most := 0., 0.
	for j, r := range p.rotatingRights {
		if l.Regions[j] == victim {
			r = r.restarted(down)
		}
		least, most = least+r.least(outage), most+r.most(outage)
	}
	both := bench.Together(reports[1], reports[2])
	out := append(promise.Prefixed("rotating: ", append(promise.Bounded(reports[0]), promise.AllAnsweredExcept(victim, reports[0]),
		promise.AtMost("admitted / what leases and floors allow, at most", of(0, here.Began)/most, 1),
		promise.AtLeast("admitted / what leases and floors allow, at least", of(0, here.Began)/least, .9-s.Slack))...),
		promise.Prefixed("lent: ", append(promise.Bounded(both), promise.AllAnswered(both))...)...)
	own := p.stayingRights[1].restarted(down)
	return append(out,
		promise.AtMost("lent: admitted by the restarted region / what it allows, at most", of(2, too.Began)/own.most(outage), 1),
		promise.AtLeast("lent: admitted by the restarted region / what it allows, at least", of(2, too.Began)/own.least(outage), .9-s.Slack),
		promise.AtLeast("lent: admitted by the first region / what it allows, at least", of(1, there.Began)/p.stayingRights[0].least(outage), .9-s.Slack),
		promise.AtMost("seconds to recover by itself", recovered.Seconds(), 30)), nil
}
