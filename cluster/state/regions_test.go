package state

import (
	"errors"
	"testing"
	"time"

	"aliquot/budget"
)

// A snapshot's configuration, and that of a bootstrap, cannot promise more than the whole of a limit.
// While floors change they are not what the weights amount to, so each number is checked by itself.
func TestConfigIsChecked(t *testing.T) {
	config := func() budget.Config { return budget.NewConfig([]string{"us", "eu", "ap"}, 10*time.Second, 20_000) }
	largest := config()
	largest.Regions[0].Weight, largest.Regions[1].Weight, largest.RhoPPM = budget.MaxWeight, 0, 0
	for _, c := range []budget.Config{config(), largest} {
		if err := checkConfig(c); err != nil {
			t.Errorf("a configuration that promises no more than the whole: %v", err)
		}
	}
	for what, change := range map[string]func(*budget.Config){
		"no region":                         func(c *budget.Config) { c.Regions = nil },
		"no lease":                          func(c *budget.Config) { c.Lease = 0 },
		"a wait below 0":                    func(c *budget.Config) { c.LeaseWait = -1 },
		"a next lease below 0":              func(c *budget.Config) { c.LeaseNext = -1 },
		"a rho below 0":                     func(c *budget.Config) { c.RhoPPM = -1 },
		"no version":                        func(c *budget.Config) { c.Version = 0 },
		"a rate below 0":                    func(c *budget.Config) { c.Regions[0].Floor.Rate, c.Regions[0].Told.Rate = -1, -1 },
		"a burst below 0":                   func(c *budget.Config) { c.Regions[0].Floor.Burst, c.Regions[0].Told.Burst = -1, -1 },
		"a region told more than its floor": func(c *budget.Config) { c.Regions[0].Told.Burst = c.Regions[0].Floor.Burst + 1 },
		"a weight below 0":                  func(c *budget.Config) { c.Regions[0].Weight = -1 },
		"a weight above the largest":        func(c *budget.Config) { c.Regions[0].Weight = budget.MaxWeight + 1 },
		"rates above the whole":             func(c *budget.Config) { c.Regions[0].Floor.Rate += 1 + rest(c).Rate },
		"bursts above the whole":            func(c *budget.Config) { c.Regions[0].Floor.Burst += 1 + rest(c).Burst },
		"a name that occurs twice":          func(c *budget.Config) { c.Regions[0].Name = "eu" },
	} {
		c := config()
		if change(&c); !errors.Is(checkConfig(c), ErrInvalidArgument) {
			t.Errorf("%s: not refused", what)
		}
	}
	whole := config()
	left := rest(&whole)
	whole.Regions[0].Floor = whole.Regions[0].Floor.Add(left)
	if err := checkConfig(whole); err != nil {
		t.Errorf("floors of exactly the whole: %v", err)
	}
}

// rest returns what the floors of a configuration leave of the whole.
func rest(c *budget.Config) budget.Share {
	left := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	for _, r := range c.Regions {
		left = budget.Share{Rate: left.Rate - r.Floor.Rate, Burst: left.Burst - r.Floor.Burst}
	}
	return left
}
