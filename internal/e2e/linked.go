package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// flapEvery is how long a flapping link is cut, and then passes.
const flapEvery = 300 * time.Millisecond

// LinkedCluster is a cluster in which regional daemons reach coordinators and stores over links, which can be cut.
type LinkedCluster struct {
	*Cluster
	coordinators [][]*Link // by region, then by coordinator
	stores       []*Link   // by region
}

// StartLinked is Start in a folder of its own below dir. The caller calls Stop, also after an error.
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
	for _, r := range own.Regions {
		if err := out.linkRegion(r); err != nil {
			return out, err
		}
	}
	return out, own.AwaitLeases(ctx)
}

// linkRegion restarts a region's daemon, which then reaches its store and the coordinators over links.
func (l *LinkedCluster) linkRegion(r *Region) error {
	coordinators, err := linksToCoordinators(l.Cluster, r)
	if err != nil {
		return err
	}
	l.coordinators = append(l.coordinators, coordinators)
	store, err := NewLink(r.Redis)
	if err != nil {
		return err
	}
	l.stores = append(l.stores, store)
	return errors.Join(r.Terminate(), r.SetFlag("--redis", "redis://"+store.Address()), r.Start())
}

// linksToCoordinators opens links to the coordinators, which a daemon uses from its next start on.
func linksToCoordinators(l *Cluster, r *Region) (links []*Link, err error) {
	var addresses []string
	for _, c := range l.Coordinators {
		to, err := NewLink(c.Address)
		if err != nil {
			return links, err
		}
		links, addresses = append(links, to), append(addresses, to.Address())
	}
	return links, r.SetFlag("--coordinators", strings.Join(addresses, ","))
}

// LinkCoordinators is linksToCoordinators, and returns the trouble that cuts these links.
func (l *Cluster) LinkCoordinators(r *Region) (cut Trouble, err error) {
	links, err := linksToCoordinators(l, r)
	return cutLinks(r.Name+" cut from the coordinators", links, Requests, Answers), err
}

// Stop kills all processes, closes the links and removes the folder. It may be called on nil.
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

// Isolated cuts a region's links to all coordinators, in some directions.
func (l *LinkedCluster) Isolated(region int, name string, directions ...direction) Trouble {
	return cutLinks(fmt.Sprintf("%s cut from the coordinators: %s", l.Regions[region].Region, name), l.coordinators[region], directions...)
}

// cutLinks cuts links in some directions.
func cutLinks(name string, links []*Link, directions ...direction) Trouble {
	each := func(do func(*Link)) func() error {
		return func() error {
			for _, to := range links {
				do(to)
			}
			return nil
		}
	}
	return Trouble{Name: name, Begin: each(func(to *Link) { to.cutOff(directions...) }), End: each((*Link).restore)}
}

// Flapping cuts and restores a region's links to its store and to the coordinators, every flapEvery.
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

// Storeless cuts a daemon from its store, which goes on running.
func (l *LinkedCluster) Storeless(region int) Trouble {
	return Trouble{
		Name:  l.Regions[region].Region + " cut from its store",
		Begin: func() error { l.stores[region].cutOff(Requests, Answers); return nil },
		End:   func() error { l.stores[region].restore(); return nil },
	}
}

// PausedTogether pauses processes at once, as when their machine is suspended.
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

// LeaderPaused pauses the coordinator that leads when the trouble begins.
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

// Lasting returns the trouble with its beginning and length.
func (t Trouble) Lasting(at, lasts time.Duration) Trouble {
	t.At, t.Lasts = at, lasts
	return t
}
