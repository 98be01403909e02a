package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"aliquot/internal/bench"
)

const (
	// cutsSettle is how long the client asks before the first fault.
	cutsSettle = 3 * time.Second
	// flapEvery is how long a flapping link is cut, and then passes.
	flapEvery = 300 * time.Millisecond
	// fixedFor is how long the fixed troubles and what follows from them last.
	fixedFor = cutsSettle + 28*time.Second
	// longestCut is longer than a lease and shorter than floorAfter; a cut that is longer than
	// both is drawn in the full form.
	longestCut = 13 * time.Second
)

// linkedCluster is a cluster in which every way between a regional daemon and a coordinator, and between a
// daemon and its store, is a link that can be cut.
type linkedCluster struct {
	*Cluster
	coordinators [][]*link // by region, then by coordinator
	stores       []*link   // by region
}

// startLinked starts a second cluster beside l. The caller calls stop, also after an error.
func startLinked(ctx context.Context, l *Cluster) (*linkedCluster, error) {
	dir, err := os.MkdirTemp(l.dir, "linked-")
	if err != nil {
		return nil, err
	}
	own, err := Start(ctx, l.bin, dir)
	out := &linkedCluster{Cluster: own}
	if err != nil {
		return out, err
	}
	for i, r := range own.Regions {
		if err := out.linkRegion(ctx, i, r); err != nil {
			return out, err
		}
	}
	return out, own.AwaitLeases(ctx)
}

// linkRegion restarts a region's daemon so that it reaches everybody through links.
func (l *linkedCluster) linkRegion(ctx context.Context, region int, r *Region) error {
	l.coordinators = append(l.coordinators, nil)
	addresses := ""
	for _, c := range l.Coordinators {
		to, err := newLink(c.Address)
		if err != nil {
			return err
		}
		l.coordinators[region] = append(l.coordinators[region], to)
		if addresses != "" {
			addresses += ","
		}
		addresses += to.address()
	}
	store, err := newLink(r.redis)
	if err != nil {
		return err
	}
	l.stores = append(l.stores, store)
	return errors.Join(r.Terminate(), r.setFlag("--coordinators", addresses), r.setFlag("--redis", "redis://"+store.address()), r.Start())
}

func (l *linkedCluster) stop() {
	if l == nil {
		return
	}
	for _, s := range slices.Concat(append(l.coordinators, l.stores)...) {
		s.close()
	}
	if l.Cluster != nil {
		l.Cluster.Stop()
		os.RemoveAll(l.Cluster.dir)
	}
}

// trouble is one fault: it begins, lasts, and ends.
type trouble struct {
	name       string
	at, lasts  time.Duration // since the client began to ask
	begin, end func() error
}

// isolated cuts a region's ways to all coordinators, in the given directions.
func (l *linkedCluster) isolated(region int, name string, directions ...direction) trouble {
	return trouble{
		name: fmt.Sprintf("%s cut from the coordinators: %s", l.Regions[region].Region, name),
		begin: func() error {
			for _, to := range l.coordinators[region] {
				to.cutOff(directions...)
			}
			return nil
		},
		end: func() error {
			for _, to := range l.coordinators[region] {
				to.restore()
			}
			return nil
		},
	}
}

// flapping cuts a region's links to its store and to the coordinators again and again.
func (l *linkedCluster) flapping(ctx context.Context, region int) trouble {
	links := append([]*link{l.stores[region]}, l.coordinators[region]...)
	over, ended := make(chan struct{}), make(chan struct{})
	return trouble{
		name: l.Regions[region].Region + ": all links flap",
		begin: func() error {
			go func() {
				defer close(ended)
				tick := time.NewTicker(flapEvery)
				defer tick.Stop()
				for cut := true; ; cut = !cut {
					for _, to := range links {
						if to.restore(); cut {
							to.cutOff(requests, answers)
						}
					}
					select {
					case <-tick.C:
					case <-over:
						return
					case <-ctx.Done():
						return
					}
				}
			}()
			return nil
		},
		end: func() error {
			close(over)
			<-ended
			for _, to := range links {
				to.restore()
			}
			return nil
		},
	}
}

// storeless cuts a daemon from its store, which lives on.
func (l *linkedCluster) storeless(region int) trouble {
	return trouble{
		name:  l.Regions[region].Region + " cut from its store",
		begin: func() error { l.stores[region].cutOff(requests, answers); return nil },
		end:   func() error { l.stores[region].restore(); return nil },
	}
}

// pausedTogether stops processes, as a machine that is suspended does.
func pausedTogether(name string, processes ...*Process) trouble {
	each := func(do func(*Process) error) (err error) {
		for _, p := range processes {
			err = errors.Join(err, do(p))
		}
		return err
	}
	return trouble{
		name:  name + " paused",
		begin: func() error { return each((*Process).Pause) },
		end:   func() error { return each((*Process).Resume) },
	}
}

// leaderPaused stops the coordinator that leads when the trouble begins.
func (l *linkedCluster) leaderPaused(ctx context.Context) trouble {
	var leader *Coordinator
	return trouble{
		name: "the leader paused",
		begin: func() (err error) {
			if leader, err = l.someLeader(ctx); err != nil {
				return err
			}
			return leader.Pause()
		},
		end: func() error { return leader.Resume() },
	}
}

// lasting places a trouble in time.
func (t trouble) lasting(at, lasts time.Duration) trouble {
	t.at, t.lasts = at, lasts
	return t
}

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
	cluster, err := startLinked(ctx, l)
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
