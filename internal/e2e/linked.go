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

// LinkedCluster is a cluster in which every way between a regional daemon and a coordinator, and between a
// daemon and its store, is a link that can be cut.
type LinkedCluster struct {
	*Cluster
	coordinators [][]*Link // by region, then by coordinator
	stores       []*Link   // by region
}

// StartLinked is Start in a folder of its own below dir. The caller calls stop, also after an error.
func StartLinked(ctx context.Context, bin, dir string) (*LinkedCluster, error) {
	dir, err := os.MkdirTemp(dir, "linked-")
	if err != nil {
		return nil, err
	}
	own, err := Start(ctx, bin, dir, Setup{})
	out := &LinkedCluster{Cluster: own}
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
func (l *LinkedCluster) linkRegion(ctx context.Context, region int, r *Region) error {
	l.coordinators = append(l.coordinators, nil)
	addresses := ""
	for _, c := range l.Coordinators {
		to, err := NewLink(c.Address)
		if err != nil {
			return err
		}
		l.coordinators[region] = append(l.coordinators[region], to)
		if addresses != "" {
			addresses += ","
		}
		addresses += to.Address()
	}
	store, err := NewLink(r.Redis)
	if err != nil {
		return err
	}
	l.stores = append(l.stores, store)
	return errors.Join(r.Terminate(), r.SetFlag("--coordinators", addresses), r.SetFlag("--redis", "redis://"+store.Address()), r.Start())
}

// Stop kills everything, closes the links and removes the folder. It may be called on nil.
func (l *LinkedCluster) Stop() {
	if l == nil {
		return
	}
	for _, s := range slices.Concat(append(l.coordinators, l.stores)...) {
		s.Close()
	}
	if l.Cluster != nil {
		l.Cluster.Stop()
		os.RemoveAll(l.Cluster.Dir)
	}
}

// Trouble is one fault: it begins, lasts, and ends.
type Trouble struct {
	Name       string
	At, Lasts  time.Duration // since the client began to ask
	Begin, End func() error
}

// Isolated cuts a region's ways to all coordinators, in the given directions.
func (l *LinkedCluster) Isolated(region int, name string, directions ...direction) Trouble {
	return Trouble{
		Name: fmt.Sprintf("%s cut from the coordinators: %s", l.Regions[region].Region, name),
		Begin: func() error {
			for _, to := range l.coordinators[region] {
				to.cutOff(directions...)
			}
			return nil
		},
		End: func() error {
			for _, to := range l.coordinators[region] {
				to.restore()
			}
			return nil
		},
	}
}

// Flapping cuts a region's links to its store and to the coordinators again and again.
func (l *LinkedCluster) Flapping(ctx context.Context, region int) Trouble {
	links := append([]*Link{l.stores[region]}, l.coordinators[region]...)
	over, ended := make(chan struct{}), make(chan struct{})
	return Trouble{
		Name: l.Regions[region].Region + ": all links flap",
		Begin: func() error {
			go func() {
				defer close(ended)
				tick := time.NewTicker(flapEvery)
				defer tick.Stop()
				for cut := true; ; cut = !cut {
					for _, to := range links {
						if to.restore(); cut {
							to.cutOff(Requests, Answers)
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
		End: func() error {
			close(over)
			<-ended
			for _, to := range links {
				to.restore()
			}
			return nil
		},
	}
}

// Storeless cuts a daemon from its store, which lives on.
func (l *LinkedCluster) Storeless(region int) Trouble {
	return Trouble{
		Name:  l.Regions[region].Region + " cut from its store",
		Begin: func() error { l.stores[region].cutOff(Requests, Answers); return nil },
		End:   func() error { l.stores[region].restore(); return nil },
	}
}

// PausedTogether stops processes, as a machine that is suspended does.
func PausedTogether(name string, processes ...*Process) Trouble {
	each := func(do func(*Process) error) (err error) {
		for _, p := range processes {
			err = errors.Join(err, do(p))
		}
		return err
	}
	return Trouble{
		Name:  name + " paused",
		Begin: func() error { return each((*Process).Pause) },
		End:   func() error { return each((*Process).Resume) },
	}
}

// LeaderPaused stops the coordinator that leads when the trouble begins.
func (l *LinkedCluster) LeaderPaused(ctx context.Context) Trouble {
	var leader *Coordinator
	return Trouble{
		Name: "the leader paused",
		Begin: func() (err error) {
			if leader, err = l.SomeLeader(ctx); err != nil {
				return err
			}
			return leader.Pause()
		},
		End: func() error { return leader.Resume() },
	}
}

// Lasting places a trouble in time.
func (t Trouble) Lasting(at, lasts time.Duration) Trouble {
	t.At, t.Lasts = at, lasts
	return t
}
