package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

const (
	// cutsSettle is how long the client asks before the first fault.
	cutsSettle = 3 * time.Second
	// fixedFor is the length of the run with the fixed troubles, until the regions have recovered.
	fixedFor = cutsSettle + 28*time.Second
	// longestCut is longer than a lease and shorter than FloorAfter. The full form also draws a cut that is longer
	// than both.
	longestCut = 13 * time.Second
)

// fixedTroubles returns the troubles of the short form: one of each kind, some at the same time.
func fixedTroubles(ctx context.Context, l *e2e.LinkedCluster) []e2e.Trouble {
	const second = time.Second
	return []e2e.Trouble{
		l.Isolated(0, "answers are lost", e2e.Answers).Lasting(cutsSettle, longestCut),
		l.LeaderPaused(ctx).Lasting(cutsSettle+2*second, 3*second),
		l.Flapping(ctx, 1).Lasting(cutsSettle+6*second, 3*second),
		e2e.PausedTogether(l.Regions[2].Region+" and its Redis", l.Regions[2].Process, l.Redis[2]).Lasting(cutsSettle+10*second, 2*second),
		l.Storeless(1).Lasting(cutsSettle+12*second, 3*second),
		l.Isolated(2, "requests are lost", e2e.Requests).Lasting(cutsSettle+16*second, 4*second),
		l.Isolated(1, "both ways", e2e.Requests, e2e.Answers).Lasting(cutsSettle+17*second, 4*second),
	}
}

// drawnTroubles returns troubles that are drawn from a seed. They fill a part of the run, one after the other.
func drawnTroubles(ctx context.Context, l *e2e.LinkedCluster, seed uint64, from, until time.Duration) (out []e2e.Trouble) {
	random := rand.New(rand.NewPCG(seed, 0))
	lengths := []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, longestCut, e2e.FloorAfter + 4*time.Second}
	for at := from; ; {
		lasts := lengths[random.IntN(len(lengths))]
		if at+lasts > until {
			return out
		}
		region := random.IntN(len(l.Regions))
		var next e2e.Trouble
		switch random.IntN(7) {
		case 0:
			next = l.Isolated(region, "answers are lost", e2e.Answers)
		case 1:
			next = l.Isolated(region, "requests are lost", e2e.Requests)
		case 2:
			next = l.Isolated(region, "both ways", e2e.Requests, e2e.Answers)
		case 3:
			next = l.Flapping(ctx, region)
		case 4:
			next = l.Storeless(region)
		case 5:
			next = e2e.PausedTogether(l.Regions[region].Region+" and its Redis", l.Regions[region].Process, l.Redis[region])
		default:
			next = l.LeaderPaused(ctx)
		}
		out = append(out, next.Lasting(at, lasts))
		at += lasts + time.Duration(random.IntN(6))*time.Second
	}
}

// play begins and ends troubles at their times since the run began.
func play(ctx context.Context, run *clients.Loading, troubles []e2e.Trouble) error {
	type moment struct {
		at time.Duration
		do func() error
	}
	var moments []moment
	for _, t := range troubles {
		moments = append(moments, moment{t.At, t.Begin}, moment{t.At + t.Lasts, t.End})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	for _, m := range moments {
		e2e.Pause(ctx, m.at-run.At())
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// cuts: links are cut in both directions, in one, and repeatedly; a coordinator and a whole region are paused; a daemon
// loses its store. A client that asks every region for all that it can get never gets more than its limit.
func cuts(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	cluster, err := e2e.StartLinked(ctx, l.Bin, l.Dir)
	defer cluster.Stop()
	if err != nil {
		return nil, err
	}
	troubles, total := fixedTroubles(ctx, cluster), fixedFor
	seed := uint64(time.Now().UnixNano())
	if s.Latencies { // the full form
		total = 4 * time.Minute
		troubles = append(troubles, drawnTroubles(ctx, cluster, seed, fixedFor, total)...)
	}
	config := clients.BigLoad(cluster.Cluster, total)
	run := clients.Begin(ctx, config)
	if err := play(ctx, run, troubles); err != nil {
		return nil, cluster.WithLogs(err)
	}
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	if err := cluster.AwaitLeases(ctx); err != nil {
		return nil, err
	}
	after, err := bench.Rotate(ctx, clients.BigLoad(cluster.Cluster, s.Run))
	if err != nil {
		return nil, err
	}
	names := fmt.Sprintf("seed %d:", seed)
	for _, t := range troubles {
		names += fmt.Sprintf(" [%v+%v %s]", t.At, t.Lasts, t.Name)
	}
	out = append(promise.Bounded(r), promise.AtLeast("utilisation afterwards", after.Utilisation.Min, .9-s.Slack))
	for i := range out[:2] {
		if !out[i].OK {
			out[i].Got += " " + names + fmt.Sprintf(" worst %+v", r.Worst)
		}
	}
	return out, nil
}
