package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// newRegion is the name of the region that comes and goes.
const newRegion = "sa-east"

// regionLifecycle: while two clients ask the other regions, a region is added, takes part, and is drained again. What
// all regions may enforce never adds up to more than the limit, and no client gets more than its limit.
func regionLifecycle(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	name := "region" + fmt.Sprint(time.Now().UnixNano())
	keys := []map[string]string{
		{"api_key": "bench-" + name + "-dwelling-0"}, {"api_key": "bench-" + name + "-rotating-0"}, {"api_key": name + "-cold"},
	}
	over := make(chan struct{})
	watching := make(chan *promise.Watched)
	go func() { watching <- promise.Watch(ctx, l, over, keys...) }()
	c := &lifecycle{cluster: l, scale: s, name: name, keys: keys}
	results, err := c.run(ctx)
	close(over)
	w := <-watching
	if err != nil {
		return nil, err
	}
	return append(results, w.Results(s)...), nil
}

// lifecycle is one run of that scenario.
type lifecycle struct {
	cluster *e2e.Cluster
	scale   promise.Scale
	name    string
	keys    []map[string]string // of both clients, and one that is not used
	// The reports of both clients, in the order of their runs. dwelling changes its region every two seconds, so that
	// shares move. rotating asks for all it can get.
	dwelling, rotating []*bench.Report
}

// dwell returns the client that changes its region every two seconds, in the cluster's present regions.
func (c *lifecycle) dwell(d time.Duration) bench.Config {
	config := clients.BigLoad(c.cluster, d)
	config.Run, config.Pattern, config.Dwell, config.Rate = c.name+"-dwelling", bench.Dwell, 2*time.Second, 500
	return config
}

// rotate returns the client that asks the cluster's present regions in turn.
func (c *lifecycle) rotate(d time.Duration) bench.Config {
	config := clients.BigLoad(c.cluster, d)
	config.Run = c.name + "-rotating"
	return config
}

// during runs both clients while f runs.
func (c *lifecycle) during(ctx context.Context, f func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	const longest = 10 * time.Minute
	dwelling, rotating := clients.Begin(ctx, c.dwell(longest)), clients.Begin(ctx, c.rotate(longest))
	err := f()
	stop()
	d, failed := dwelling.Wait()
	r, failedToo := rotating.Wait()
	c.dwelling, c.rotating = append(c.dwelling, d), append(c.rotating, r)
	return errors.Join(err, failed, failedToo)
}

// run adds the region, uses it, and drains it.
func (c *lifecycle) run(ctx context.Context) ([]promise.Result, error) {
	l, s := c.cluster, c.scale
	var added *e2e.Region
	var joined, drained time.Duration
	var only *bench.Report
	err := c.during(ctx, func() (err error) {
		e2e.Pause(ctx, s.Run/6)
		added, joined, err = c.add(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = c.during(ctx, func() (err error) {
		if only, err = c.askOnly(ctx, added); err == nil {
			drained, err = c.drain(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := l.EndRegion(); err != nil {
		return nil, err
	}
	others, err := c.floors(ctx)
	if err != nil {
		return nil, err
	}
	after, err := bench.Rotate(ctx, c.rotate(s.Run/2))
	if err != nil {
		return nil, err
	}
	dwelling := bench.Together(c.dwelling[0], c.dwelling[1:]...)
	rotating := bench.Together(after, c.rotating...)
	out := promise.Prefixed("dwelling: ", append(promise.Bounded(dwelling), promise.AllAnswered(dwelling))...)
	out = append(out, promise.Prefixed("rotating: ", append(promise.Bounded(rotating), promise.AllAnswered(rotating),
		promise.AtLeast("utilisation", rotating.Utilisation.Min, .9-s.Slack))...)...)
	out = append(out, promise.Prefixed("in the new region alone: ", append(promise.Bounded(only), promise.AllAnswered(only),
		promise.AtLeast("admitted / rt after the first second", only.Steady.Min, .9-s.Slack))...)...)
	return append(out,
		promise.AtMost("seconds from AddRegion and the start of its daemon to its whole floor", joined.Seconds(), 30),
		promise.AtMost("seconds from DrainRegion to drained", drained.Seconds(), 30),
		promise.AtLeast("afterwards: floors of the other regions together", others, .999),
		promise.AtLeast("afterwards: rotating client's admitted / rt after the first second", after.Steady.Min, .95-s.Slack)), nil
}

// add declares the region and starts its daemon. It returns when the region has its whole floor.
func (c *lifecycle) add(ctx context.Context) (*e2e.Region, time.Duration, error) {
	at, err := c.cluster.Follower(ctx)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	err = e2e.WhenLed(ctx, func() error {
		_, err := c.cluster.RegionService(at).AddRegion(ctx, &aliquotv1.AddRegionRequest{Name: newRegion})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	r, err := c.cluster.StartRegion(newRegion)
	if err != nil {
		return nil, 0, err
	}
	err = c.await(ctx, "active with its floor", func(r *aliquotv1.Region, b *aliquotv1.Budget) error {
		if r.Status != "active" || math.Abs(r.Floor-r.TargetFloor) > 1e-3 || r.TargetFloor < .2 {
			return fmt.Errorf("it is %s with a floor of %.4f of %.4f", r.Status, r.Floor, r.TargetFloor)
		}
		return nil
	})
	took := time.Since(began)
	return r, took, errors.Join(err, c.cluster.AwaitLease(ctx, r))
}

// askOnly runs another client, which asks one region alone.
func (c *lifecycle) askOnly(ctx context.Context, r *e2e.Region) (*bench.Report, error) {
	config := clients.BigLoad(c.cluster, c.scale.Run)
	config.Regions, config.Pattern, config.Rate = []string{r.Address}, bench.Stay, 500
	return bench.Rotate(ctx, config)
}

// drain drains the region. It returns when every coordinator shows that the region has no part of any key.
func (c *lifecycle) drain(ctx context.Context) (time.Duration, error) {
	at, err := c.cluster.Follower(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = e2e.WhenLed(ctx, func() error {
		_, err := c.cluster.RegionService(at).DrainRegion(ctx, &aliquotv1.DrainRegionRequest{Name: newRegion})
		return err
	})
	if err != nil {
		return 0, err
	}
	err = c.await(ctx, "drained", func(r *aliquotv1.Region, b *aliquotv1.Budget) error {
		i := slices.IndexFunc(b.Regions, func(r *aliquotv1.RegionBudget) bool { return r.Region == newRegion })
		if r.Status != "drained" || r.FloorBound != 0 || i < 0 || b.Regions[i].Share != 0 || b.Regions[i].BurstShare != 0 {
			return fmt.Errorf("it is %s with %.4f of the floor and %s", r.Status, r.FloorBound, promise.SharesOf(b))
		}
		return nil
	})
	return time.Since(began), err
}

// await waits until holds accepts the region and the budget of each key, at every coordinator.
func (c *lifecycle) await(ctx context.Context, what string, holds func(*aliquotv1.Region, *aliquotv1.Budget) error) error {
	l := c.cluster
	for _, at := range l.Coordinators {
		err := e2e.Until(ctx, e2e.ReadyWithin, newRegion+" "+what+" at "+at.Name, func() error {
			regions, err := l.Declared(ctx, at)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(regions, func(r *aliquotv1.Region) bool { return r.Name == newRegion })
			if i < 0 {
				return errors.New("it is not declared")
			}
			for _, key := range c.keys {
				b, err := l.Budget(ctx, at, e2e.BigRule, key)
				if err == nil {
					err = holds(regions[i], b)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return l.WithLogs(err)
		}
	}
	return nil
}

// floors waits until the floors of the other regions are at their targets, and returns their sum.
func (c *lifecycle) floors(ctx context.Context) (sum float64, err error) {
	err = e2e.Until(ctx, e2e.ReadyWithin, "divided among those that remain", func() error {
		leader, err := c.cluster.Leader(ctx)
		if err != nil {
			return err
		}
		regions, err := c.cluster.Declared(ctx, leader)
		if err != nil {
			return err
		}
		sum = 0
		for _, r := range regions {
			if r.Name == newRegion {
				continue
			}
			sum += r.Floor
			if math.Abs(r.Floor-r.TargetFloor) > 1e-3 {
				return fmt.Errorf("%s has %.4f of %.4f", r.Name, r.Floor, r.TargetFloor)
			}
		}
		return nil
	})
	return sum, err
}
