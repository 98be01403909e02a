package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Stream is a part of a load: what one Config sends, from a while after the beginning.
type Stream struct {
	Config
	After time.Duration
}

// together runs streams of the same clients at the same time and reports each.
func together(ctx context.Context, streams []Stream) ([]*Report, error) {
	run := newRunName()
	reports, errs := make([]*Report, len(streams)), make([]error, len(streams))
	began := time.Now()
	var wg sync.WaitGroup
	for i, s := range streams {
		if s.Run == "" {
			s.Run = run
		}
		wg.Go(func() {
			if !waitUntil(ctx, began.Add(s.After)) {
				errs[i] = ctx.Err()
				return
			}
			reports[i], errs[i] = Rotate(ctx, s.Config)
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

// waitUntil lets time pass and reports whether the run goes on.
func waitUntil(ctx context.Context, t time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(t)):
		return true
	}
}

// StepConfig is a demand that moves from one region to another at once.
type StepConfig struct {
	// Config is the load: all of it goes to the first of its regions, and after Before
	// to the second one, for After. Its pattern and duration do not matter.
	Config
	Before, After time.Duration
}

// StepReport is what a demand step measured.
type StepReport struct {
	Before *Report `json:"before"`
	After  *Report `json:"after"`
	// Whole judges both as the one client that they were.
	Whole *Report `json:"whole"`
	// Converged is how long after the step the second region kept up with 95 % of the
	// limit's rate: from then on, until the end, it never falls behind it again.
	Converged time.Duration `json:"converged"`
}

// usable is the part of the rate that counts as converged.
const usable = .95

// Validate says what is wrong with a configuration, naming the flags.
func (c StepConfig) Validate() error {
	var errs []error
	if len(c.Regions) < 2 {
		errs = append(errs, errors.New("--regions: name the region that the demand leaves and the one it goes to"))
	}
	if c.Before <= 0 || c.After <= 0 {
		errs = append(errs, errors.New("--before, --after: give positive durations, such as 15s"))
	}
	if len(errs) == 0 {
		errs = append(errs, c.before().Validate())
	}
	return errors.Join(errs...)
}

func (c StepConfig) before() Config {
	c.Config.Pattern, c.Config.Duration, c.Config.Regions = Stay, c.Before, c.Regions[:1]
	return c.Config
}

// Step runs a demand step.
func Step(ctx context.Context, c StepConfig) (*StepReport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	first := c.before()
	second := first
	second.Regions, second.Duration = c.Regions[1:2], c.After
	reports, err := together(ctx, []Stream{{Config: first}, {Config: second, After: c.Before}})
	if err != nil {
		return nil, err
	}
	out := &StepReport{Before: reports[0], After: reports[1], Whole: Together(reports[0], reports[1])}
	out.Converged = out.After.converged(usable * out.After.Limit.Refill)
	return out, nil
}

// converged is the last time at which a run was farthest behind a rate.
func (out *Report) converged(rate float64) time.Duration {
	order := intervalsOf(out.admissions)
	latest, most, n := time.Duration(0), 0., 0
	consider := func(at time.Duration) {
		if behind := rate*at.Seconds() - float64(n); behind >= most {
			latest, most = at, behind
		}
	}
	for _, p := range order.order {
		consider(order.bySent[p].received)
		n++
	}
	consider(out.Duration)
	return latest
}

// FloodConfig is a client that retries without end in one region while it has a demand
// in another.
type FloodConfig struct {
	// Config is the demand: it goes to the second of its regions, for its Duration, at
	// its Rate.
	Config
	// FloodRate is the retries a second in the first region, from Quiet on; 0: as many
	// as FloodBatch in a call allow. A call has FloodBatch of them.
	FloodRate  float64
	FloodBatch int
	Quiet      time.Duration
}

// FloodReport is what a flood measured.
type FloodReport struct {
	Flood *Report `json:"flood"`
	Other *Report `json:"other"`
	// Whole judges both as the one client that they were.
	Whole *Report `json:"whole"`
	// Served is what the other region admitted of min(its demand, its part of the limit),
	// over its whole run.
	Served float64 `json:"served"`
}

// Validate says what is wrong with a configuration, naming the flags.
func (c FloodConfig) Validate() error {
	var errs []error
	if len(c.Regions) < 2 {
		errs = append(errs, errors.New("--regions: name the flooded region and the other one"))
	}
	if c.Rate <= 0 {
		errs = append(errs, errors.New("--rate: give the other region's demand, requests a second"))
	}
	if c.FloodRate < 0 || c.FloodBatch < 1 || c.FloodBatch > maxBatch {
		errs = append(errs, errors.New("--flood-rate, --flood-batch: give a rate, or 0, and 1 to 1000 requests in a call"))
	}
	if c.Quiet < 0 || c.Quiet >= c.Duration {
		errs = append(errs, errors.New("--quiet: give less than --duration"))
	}
	if len(errs) == 0 {
		errs = append(errs, c.other().Validate())
	}
	return errors.Join(errs...)
}

func (c FloodConfig) other() Config {
	c.Config.Pattern, c.Config.Regions = Stay, c.Regions[1:2]
	return c.Config
}

// Flood runs a retry flood beside a demand. regions is among how many the limit is
// divided.
func Flood(ctx context.Context, c FloodConfig, regions int) (*FloodReport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	flood := c.Config
	flood.Pattern, flood.Regions, flood.Duration = Stay, c.Regions[:1], c.Duration-c.Quiet
	flood.Rate, flood.Batch = c.FloodRate, c.FloodBatch
	reports, err := together(ctx, []Stream{{Config: flood, After: c.Quiet}, {Config: c.other()}})
	if err != nil {
		return nil, err
	}
	out := &FloodReport{Flood: reports[0], Other: reports[1], Whole: Together(reports[0], reports[1])}
	own := out.Other.Limit.Refill / float64(max(regions, 1)) * out.Other.Duration.Seconds()
	if due := min(float64(out.Other.Offered), own); due > 0 {
		out.Served = float64(out.Other.Admitted) / due
	}
	return out, nil
}
