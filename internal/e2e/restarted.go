package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/bench"
)

// restartedAlone: all coordinators and one regional daemon die; the daemon comes
// back and knows nothing but its state file and its Redis. It serves the smaller of
// share and floor until every lease that covers what it lent is over, then its
// floor. One client rotates; the other was in the first region only, so that the
// restarted one had lent its part, and turns to that too.
func restartedAlone(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	const settle = 4 * time.Second
	victim, total := l.Regions[1], settle+s.Outage+s.Run
	if err := victim.forgetDaemons(); err != nil { // of scenarios before this one
		return nil, err
	}
	name := fmt.Sprint(time.Now().UnixNano())
	rotating, staying := l.load(total), l.load(total)
	rotating.Run, staying.Run = "alone-rotate"+name, "alone-stay"+name
	staying.Pattern, staying.Rate = bench.Stay, 300
	here, there := begin(ctx, rotating), begin(ctx, staying)
	pause(ctx, settle)
	roving, err := l.rights(ctx, rotating.Run)
	if err != nil {
		return nil, err
	}
	lent, err := l.rights(ctx, staying.Run)
	if err != nil {
		return nil, err
	}
	killed := here.at()
	if err := errors.Join(l.killCoordinators(), victim.Kill9(), victim.Start(), l.awaitRules(ctx, victim)); err != nil {
		return nil, err
	}
	down := here.at() - killed
	late := staying
	late.Regions, late.Duration = []string{victim.Address}, total-here.at()
	too := begin(ctx, late)
	pause(ctx, s.Outage-down)
	back := here.at()
	recovered, err := l.restartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]*bench.Report, 3)
	for i, run := range []*loading{here, there, too} {
		if reports[i], err = run.wait(); err != nil {
			return nil, err
		}
	}
	of := func(i int, began time.Time) float64 {
		offset := here.began.Sub(began)
		return float64(admittedBetween(reports[i].Series, killed+offset, back+offset))
	}
	outage := back - killed
	least, most := 0., 0.
	for j, r := range roving {
		if l.Regions[j] == victim {
			r = r.restarted(down)
		}
		least, most = least+r.least(outage), most+r.most(outage)
	}
	both := bench.Together(reports[1], reports[2])
	out := append(prefixed("rotating: ", append(bounded(reports[0]), unfailingBut(reports[0], victim),
		atMost("admitted / what leases and floors allow, at most", of(0, here.began)/most, 1),
		atLeast("admitted / what leases and floors allow, at least", of(0, here.began)/least, .9-s.Slack))...),
		prefixed("lent: ", append(bounded(both), unfailing(both))...)...)
	own := lent[1].restarted(down)
	return append(out,
		atMost("lent: admitted by the restarted region / what it allows, at most", of(2, too.began)/own.most(outage), 1),
		atLeast("lent: admitted by the restarted region / what it allows, at least", of(2, too.began)/own.least(outage), .9-s.Slack),
		atLeast("lent: admitted by the first region / what it allows, at least", of(1, there.began)/lent[0].least(outage), .9-s.Slack),
		atMost("seconds to recover by itself", recovered.Seconds(), 30)), nil
}
