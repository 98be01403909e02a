package budget

import "testing"

func TestResidualExcess(t *testing.T) {
	third := Share{Unit / 3, Unit / 3}
	now := KeyLimit{Capacity: 200 * microToken, Rate: 20 * microToken}
	old := KeyLimit{Capacity: 1000 * microToken, Rate: 100 * microToken}
	for name, c := range map[string]struct {
		regions     []Outdated
		burst, rate int64 // whole tokens
	}{
		"everyone knows":         {[]Outdated{{Share: third}, {Share: third}}, 0, 0},
		"one has not heard":      {[]Outdated{{Share: third, Limit: old}, {Share: third}}, 266, 26},
		"two have not":           {[]Outdated{{Share: third, Limit: old}, {Share: third, Limit: old}}, 533, 53},
		"it was raised":          {[]Outdated{{Share: third, Limit: KeyLimit{Capacity: microToken, Rate: 1}}}, 0, 0},
		"one that holds nothing": {[]Outdated{{Limit: old}}, 0, 0},
	} {
		burst, rate := ResidualExcess(now, c.regions)
		if burst/microToken != c.burst || rate/microToken != c.rate {
			t.Errorf("%s: %d and %d a second, want %d and %d tokens", name, burst, rate, c.burst, c.rate)
		}
	}
}
