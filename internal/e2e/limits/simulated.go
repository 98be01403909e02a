package limits

import (
	"context"
	"fmt"
	"math"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/sim/compare"
)

// agreement is the part by which the daemons may differ from the simulator.
const agreement = .02

// agrees: the daemons and the simulator admit the same of the same workload.
func agrees(ctx context.Context, l *e2e.Cluster, _ promise.Scale) ([]promise.Result, error) {
	rotation, step, flood := compare.Agreed()
	var out []promise.Result
	for _, one := range []struct {
		load compare.Workload
		run  func(context.Context, *e2e.Cluster, compare.Workload) ([]figure, error)
	}{{rotation, agreedRotation}, {step, agreedStep}, {flood, agreedFlood}} {
		simulated, err := compare.Run(compare.KindOf("strict"), one.load, 1)
		if err != nil {
			return nil, err
		}
		real, err := one.run(ctx, l, one.load)
		if err != nil {
			return nil, err
		}
		for _, s := range real {
			out = append(out, s.against(one.load, simulated))
		}
	}
	return out, nil
}

// figure is one figure of a run of the daemons. want returns the same figure of a simulated run.
type figure struct {
	what string
	got  float64
	want func(compare.Workload, compare.Outcome) float64
}

// against returns the promise that a figure agrees with the simulated one.
func (s figure) against(load compare.Workload, o compare.Outcome) promise.Result {
	want := s.want(load, o)
	apart := math.Abs(s.got/want - 1)
	return promise.Result{
		Promise: fmt.Sprintf("%s: %s", load.Name, s.what),
		Want:    fmt.Sprintf("%.4f, as simulated, within %.0f %%", want, agreement*100),
		Got:     fmt.Sprintf("%.4f (%.2f %% apart)", s.got, apart*100),
		OK:      apart <= agreement,
	}
}

// loadOf returns the configuration of a load on the daemons that asks as a source does.
func loadOf(l *e2e.Cluster, w compare.Workload, s compare.Source) bench.Config {
	c := clients.BigLoad(l, w.Length)
	c.Limit = bench.Limit{Capacity: float64(w.Keys[s.Key].Capacity), Refill: float64(w.Keys[s.Key].Rate)}
	c.Rate = s.Rate
	c.Batch = max(1, int(s.Rate/200)) // 200 calls a second are no load
	if !s.Rotating {
		c.Pattern = bench.Stay
	}
	return c
}

func agreedRotation(ctx context.Context, l *e2e.Cluster, w compare.Workload) ([]figure, error) {
	r, err := bench.Rotate(ctx, loadOf(l, w, w.Sources[0]))
	if err != nil {
		return nil, err
	}
	return []figure{{"admitted / (C + rt)", r.Gain, func(_ compare.Workload, o compare.Outcome) float64 { return o.Gain }}}, nil
}

func agreedStep(ctx context.Context, l *e2e.Cluster, w compare.Workload) ([]figure, error) {
	from, to := w.Sources[0], w.Sources[1]
	c := bench.StepConfig{Config: loadOf(l, w, from), Before: w.Step, After: w.Length - w.Step}
	c.Regions = []string{c.Regions[from.Region], c.Regions[to.Region]}
	r, err := bench.Step(ctx, c)
	if err != nil {
		return nil, err
	}
	part := func(region int) func(compare.Workload, compare.Outcome) float64 {
		return func(w compare.Workload, o compare.Outcome) float64 { return float64(o.Regions[region].Admitted) }
	}
	return []figure{
		{"admitted before it", float64(r.Before.Admitted), part(from.Region)},
		{"admitted after it", float64(r.After.Admitted), part(to.Region)},
		{"admitted / (C + rt)", r.Whole.Gain, func(_ compare.Workload, o compare.Outcome) float64 { return o.Gain }},
	}, nil
}

func agreedFlood(ctx context.Context, l *e2e.Cluster, w compare.Workload) ([]figure, error) {
	flood, other := w.Sources[0], w.Sources[1]
	c := bench.FloodConfig{
		Config: loadOf(l, w, other), FloodRate: flood.Rate, FloodBatch: loadOf(l, w, flood).Batch, Quiet: flood.From,
	}
	c.Regions = []string{c.Regions[flood.Region], c.Regions[other.Region]}
	r, err := bench.Flood(ctx, c, len(w.RTTs))
	if err != nil {
		return nil, err
	}
	part := func(region int) func(compare.Workload, compare.Outcome) float64 {
		return func(w compare.Workload, o compare.Outcome) float64 {
			p := o.Regions[region]
			return float64(p.Admitted) / math.Min(float64(p.Offered), float64(w.Keys[0].Rate)*w.Length.Seconds())
		}
	}
	return []figure{
		{"admitted by the flooded region", float64(r.Flood.Admitted), func(_ compare.Workload, o compare.Outcome) float64 {
			return float64(o.Regions[flood.Region].Admitted)
		}},
		{"admitted by the other / its demand", float64(r.Other.Admitted) / float64(r.Other.Offered), part(other.Region)},
	}, nil
}
