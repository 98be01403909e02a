package bench

import (
	"context"
	"errors"
	"time"
)

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
