package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"aliquot/internal/bench"
)

const (
	// cutsSettle is how long the client asks before the first fault.
	cutsSettle = 3 * time.Second
	// fixedFor is how long the fixed troubles and what follows from them last.
	fixedFor = cutsSettle + 28*time.Second
	// longestCut is longer than a lease and shorter than floorAfter; a cut that is longer than
	// both is drawn in the full form.
	longestCut = 13 * time.Second
)

// fixedTroubles are those of the short form, one of each kind; some overlap.
func (l *linkedCluster) fixedTroubles(ctx context.Context) []trouble {
	second := time.Second
	return []trouble{
		l.isolated(0, "answers are lost", answers).lasting(cutsSettle, longestCut),
		l.leaderPaused(ctx).lasting(cutsSettle+2*second, 3*second),
		l.flapping(ctx, 1).lasting(cutsSettle+6*second, 3*second),
		pausedTogether(l.Regions[2].Region+" and its Redis", l.Regions[2].Process, l.Redis[2]).lasting(cutsSettle+10*second, 2*second),
		l.storeless(1).lasting(cutsSettle+12*second, 3*second),
		l.isolated(2, "requests are lost", requests).lasting(cutsSettle+16*second, 4*second),
		l.isolated(1, "both ways", requests, answers).lasting(cutsSettle+17*second, 4*second),
	}
}

// drawnTroubles fill a part of the run with troubles, one after the other, drawn from a seed.
func (l *linkedCluster) drawnTroubles(ctx context.Context, seed uint64, from, until time.Duration) (out []trouble) {
	random := rand.New(rand.NewPCG(seed, 0))
	lengths := []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, longestCut, floorAfter + 4*time.Second}
	for at := from; ; {
		lasts := lengths[random.IntN(len(lengths))]
		if at+lasts > until {
			return out
		}
		region := random.IntN(len(l.Regions))
		var next trouble
		switch random.IntN(7) {
		case 0:
			next = l.isolated(region, "answers are lost", answers)
		case 1:
			next = l.isolated(region, "requests are lost", requests)
		case 2:
			next = l.isolated(region, "both ways", requests, answers)
		case 3:
			next = l.flapping(ctx, region)
		case 4:
			next = l.storeless(region)
		case 5:
			next = pausedTogether(l.Regions[region].Region+" and its Redis", l.Regions[region].Process, l.Redis[region])
		default:
			next = l.leaderPaused(ctx)
		}
		out = append(out, next.lasting(at, lasts))
		at += lasts + time.Duration(random.IntN(6))*time.Second
	}
}

// play begins and ends troubles at their times, by the clock of the run.
func play(ctx context.Context, run *loading, troubles []trouble) error {
	type moment struct {
		at time.Duration
		do func() error
	}
	var moments []moment
	for _, t := range troubles {
		moments = append(moments, moment{t.at, t.begin}, moment{t.at + t.lasts, t.end})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	for _, m := range moments {
		pause(ctx, m.at-run.at())
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// cuts: links are cut both ways, one way and again and again, a coordinator and a whole region
// stand still, and a daemon loses its store. A client that spends all it can, everywhere, gains
// nothing in any interval.
func cuts(ctx context.Context, l *Cluster, s Scale) (out []Result, err error) {
	cluster, err := startLinked(ctx, l.bin, l.dir)
	defer cluster.stop()
	if err != nil {
		return nil, err
	}
	troubles, total := cluster.fixedTroubles(ctx), fixedFor
	seed := uint64(time.Now().UnixNano())
	if s.Latencies { // the full form
		total = 4 * time.Minute
		troubles = append(troubles, cluster.drawnTroubles(ctx, seed, fixedFor, total)...)
	}
	config := cluster.load(total)
	run := begin(ctx, config)
	if err := play(ctx, run, troubles); err != nil {
		return nil, cluster.withLogs(err)
	}
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	if err := cluster.AwaitLeases(ctx); err != nil {
		return nil, err
	}
	after, err := bench.Rotate(ctx, cluster.load(s.Run))
	if err != nil {
		return nil, err
	}
	names := fmt.Sprintf("seed %d:", seed)
	for _, t := range troubles {
		names += fmt.Sprintf(" [%v+%v %s]", t.at, t.lasts, t.name)
	}
	out = append(bounded(r), atLeast("utilisation afterwards", after.Utilisation.Min, .9-s.Slack))
	for i := range out[:2] {
		if !out[i].OK {
			out[i].Got += " " + names + fmt.Sprintf(" worst %+v", r.Worst)
		}
	}
	return out, nil
}
