package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// flapEvery is how long a flapping link is cut, and then passes.
const flapEvery = 300 * time.Millisecond

// linkedCluster is a cluster in which every way between a regional daemon and a coordinator, and between a
// daemon and its store, is a link that can be cut.
type linkedCluster struct {
	*Cluster
	coordinators [][]*link // by region, then by coordinator
	stores       []*link   // by region
}

// startLinked is Start in a folder of its own below dir. The caller calls stop, also after an error.
func startLinked(ctx context.Context, bin, dir string) (*linkedCluster, error) {
	dir, err := os.MkdirTemp(dir, "linked-")
	if err != nil {
		return nil, err
	}
	own, err := Start(ctx, bin, dir, Setup{})
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
