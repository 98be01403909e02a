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

// restartedAlone: all coordinators and one regional daemon are killed. The daemon starts again with its state file and
// its Redis. It enforces the smaller of share and floor until every lease on what it has lent has ended, and then its
// floor. One client rotates. The other one asks the first region alone, so the restarted region has lent its floor;
// after the restart it asks that region, too.
func restartedAlone(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	victim, total := l.Regions[1], pairSettles+s.Outage+s.Run
	if err := victim.ForgetDaemons(); err != nil { // daemons of earlier scenarios
		return nil, err
	}
	p, err := beginPair(ctx, l, "alone", total)
	if err != nil {
		return nil, err
	}
	rotating, staying := p.rotating, p.staying
	killed := rotating.At()
	if err := errors.Join(l.KillCoordinators(), victim.Kill9(), victim.Start(), l.AwaitRules(ctx, victim)); err != nil {
		return nil, err
	}
	down := rotating.At() - killed
	config := p.stays
	config.Regions, config.Duration = []string{victim.Address}, total-rotating.At()
	late := clients.Begin(ctx, config)
	e2e.Pause(ctx, s.Outage-down)
	back := rotating.At()
	recovered, err := l.RestartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]*bench.Report, 3)
	for i, run := range []*clients.Loading{rotating, staying, late} {
		if reports[i], err = run.Wait(); err != nil {
			return nil, err
		}
	}
	admitted := func(i int, began time.Time) float64 {
		offset := rotating.Began.Sub(began)
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
		promise.AtMost("admitted / what leases and floors allow, at most", admitted(0, rotating.Began)/most, 1),
		promise.AtLeast("admitted / what leases and floors allow, at least", admitted(0, rotating.Began)/least, .9-s.Slack))...),
		promise.Prefixed("lent: ", append(promise.Bounded(both), promise.AllAnswered(both))...)...)
	own := p.stayingRights[1].restarted(down)
	return append(out,
		promise.AtMost("lent: admitted by the restarted region / what it allows, at most", admitted(2, late.Began)/own.most(outage), 1),
		promise.AtLeast("lent: admitted by the restarted region / what it allows, at least", admitted(2, late.Began)/own.least(outage), .9-s.Slack),
		promise.AtLeast("lent: admitted by the first region / what it allows, at least", admitted(1, staying.Began)/p.stayingRights[0].least(outage), .9-s.Slack),
		promise.AtMost("seconds to recover by itself", recovered.Seconds(), 30)), nil
}
