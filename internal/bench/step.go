package bench

import (
	"context"
	"errors"
	"time"
)

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
