package promise

import (
	"testing"

	"aliquot/budget"
)

func TestResidualExcess(t *testing.T) {
	third := budget.Share{Rate: budget.Unit / 3, Burst: budget.Unit / 3}
	now := budget.KeyLimit{Capacity: 200 * million, Rate: 20 * million}
	old := budget.KeyLimit{Capacity: 1000 * million, Rate: 100 * million}
	for name, c := range map[string]struct {
		regions     []Outdated
		burst, rate int64 // whole tokens
	}{
		"everyone knows":         {[]Outdated{{Share: third}, {Share: third}}, 0, 0},
		"one has not heard":      {[]Outdated{{Share: third, Limit: old}, {Share: third}}, 266, 26},
		"two have not":           {[]Outdated{{Share: third, Limit: old}, {Share: third, Limit: old}}, 533, 53},
		"it was raised":          {[]Outdated{{Share: third, Limit: budget.KeyLimit{Capacity: million, Rate: 1}}}, 0, 0},
		"one that holds nothing": {[]Outdated{{Limit: old}}, 0, 0},
	} {
		burst, rate := ResidualExcess(now, c.regions)
		if burst/million != c.burst || rate/million != c.rate {
			t.Errorf("%s: %d and %d a second, want %d and %d tokens", name, burst, rate, c.burst, c.rate)
		}
	}
}
