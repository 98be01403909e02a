package promise

import (
	"fmt"
	"testing"
	"time"

	"aliquot/budget"
)

// million is one whole token in micro-tokens.
const million = 1_000_000

// tokens is micro-tokens as people read them, to a thousandth.
func tokens(micro int64) string { return fmt.Sprintf("%.3f", float64(micro)/million) }

// terms are C = 300 and r = 100 a second over three regions, 80 ms from a leader whose
// commits take 10 ms.
func terms(e Enforcement) *Terms {
	c := budget.NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	return &Terms{
		Limit: budget.KeyLimit{Capacity: 300 * million, Rate: 100 * million}, Enforcement: e, Config: &c,
		RoundTrip: 80 * time.Millisecond, Quorum: 10 * time.Millisecond,
	}
}

// TestPromiseInNumbers works each bound out by hand.
func TestPromiseInNumbers(t *testing.T) {
	heavy := func(c *budget.Config) { // floors 1/2, 1/4, 1/4
		c.Regions[0].Weight = 2
		for i, floor := range c.Targets() {
			r := &c.Regions[i]
			r.Floor, r.Told, r.Low = floor, floor, floor
		}
	}
	for _, test := range []struct {
		name  string
		terms *Terms
		with  func(*Terms)
		// burst and rate of what is admitted, of which excess and moving
		burst, rate, excess, moving string
		// refused at first touch and on a step; out of reach of a lone busy region (rate,
		// burst), while another one is silent, for those that are silent now
		touch, step, steadyRate, steadyBurst, silent, silentNow string
		// a region that is cut off
		kept, floor string
	}{
		{
			// touch: 300 + 100 x 1.29 less a third of both; step: 100 x 1.54 - 2; steady:
			// two connected floors of 2/300 and the dead band of 1 %.
			name: "strict", terms: terms(Strict),
			burst: "300.000", rate: "102.000", excess: "0.000", moving: "0.000",
			touch: "286.000", step: "152.000", steadyRate: "2.333", steadyBurst: "7.000", silent: "35.667", silentNow: "0.000",
			kept: "0.667", floor: "33.333",
		},
		{
			name: "elastic: two bursts more, and the whole burst is at hand", terms: terms(Elastic),
			burst: "900.000", rate: "102.000", excess: "600.000", moving: "0.000",
			touch: "86.000", step: "152.000", steadyRate: "2.333", steadyBurst: "7.000", silent: "35.667", silentNow: "0.000",
			kept: "0.667", floor: "33.333",
		},
		{
			name: "independent: three times the limit, and nothing is ever lost", terms: terms(Independent),
			burst: "900.000", rate: "306.000", excess: "600.000", moving: "0.000",
			touch: "0.000", step: "0.000", steadyRate: "0.000", steadyBurst: "0.000", silent: "0.000", silentNow: "0.000",
			kept: "100.000", floor: "100.000",
		},
		{
			// The smallest floor is 1/4: touch (300 + 129) x 3/4, steady 2 x .005 + .01 or, of
			// the burst, 3 + 1.5 and 3 of the dead band. A silent region may be the heavy one.
			name: "weights", terms: terms(Strict), with: func(t *Terms) { heavy(t.Config); t.Silent = []bool{true} },
			burst: "300.000", rate: "102.000", excess: "0.000", moving: "0.000",
			touch: "321.750", step: "152.500", steadyRate: "2.500", steadyBurst: "7.500", silent: "52.500", silentNow: "50.000",
			kept: "0.500", floor: "25.000",
		},
		{
			// b is told 1/12 less: an elastic key may have 25 tokens more of extra burst.
			name: "floors that move", terms: terms(Elastic), with: func(t *Terms) {
				t.Config.Regions[1].Told = budget.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 4}
			},
			burst: "925.000", rate: "102.000", excess: "625.000", moving: "25.000",
			touch: "96.750", step: "152.500", steadyRate: "2.333", steadyBurst: "7.000", silent: "35.667", silentNow: "0.000",
			kept: "0.500", floor: "25.000",
		},
		{
			// Nothing is kept of a limit whose floor is less than a request. 10 s of it are
			// two tokens; a measurement takes 5 s, an exchange 0.52 s.
			name: "a small limit", terms: terms(Strict), with: func(t *Terms) {
				t.Limit = budget.KeyLimit{Capacity: 2 * million, Rate: million / 5, Placement: budget.PlacementSplit}
			},
			burst: "2.000", rate: "0.204", excess: "0.000", moving: "0.000",
			touch: "2.145", step: "2.228", steadyRate: "0.002", steadyBurst: "0.020", silent: "0.069", silentNow: "0.000",
			kept: "0.000", floor: "0.067",
		},
		{
			// All of it moves, so that a region alone has all of it. A measurement takes
			// 0.85 s: touch (29 + 10 x 1.89) x 2/3, step 10 x 2.74.
			name: "a limit that has a home", terms: terms(Strict), with: func(t *Terms) {
				t.Limit = budget.KeyLimit{Capacity: 29 * million, Rate: 10 * million}
			},
			burst: "29.000", rate: "10.200", excess: "0.000", moving: "0.000",
			touch: "31.933", step: "27.400", steadyRate: "0.000", steadyBurst: "0.000", silent: "3.333", silentNow: "0.000",
			kept: "0.000", floor: "3.333",
		},
		{
			// Each window of 3 s is within 300 everywhere. What is unused moves at once, but for one
			// request of each region: touch (300 + 100 x 1.29) x 2/3, step 100 x 1.54 - 1.
			name: "fixed windows, strict even if elastic", terms: terms(Elastic), with: func(t *Terms) {
				t.Counts, t.Limit.Tail = Windows, 6*time.Second
			},
			burst: "900.000", rate: "102.000", excess: "600.000", moving: "0.000",
			touch: "286.000", step: "153.000", steadyRate: "1.667", steadyBurst: "5.000", silent: "35.000", silentNow: "0.000",
			kept: "0.333", floor: "33.333",
		},
		{
			name: "a log of 3 s, strict even if elastic", terms: terms(Elastic), with: func(t *Terms) {
				t.Counts, t.Limit.Tail = Log, 3*time.Second
			},
			burst: "300.000", rate: "102.000", excess: "0.000", moving: "0.000",
			touch: "286.000", step: "153.000", steadyRate: "1.667", steadyBurst: "5.000", silent: "35.000", silentNow: "0.000",
			kept: "0.333", floor: "33.333",
		},
		{
			name: "slots: 300 in use at a time", terms: terms(Strict), with: func(t *Terms) {
				t.Counts, t.Limit.Tail = Slots, 3*time.Second
			},
			burst: "300.000", rate: "0.000", excess: "0.000", moving: "0.000",
			touch: "286.000", step: "153.000", steadyRate: "1.667", steadyBurst: "5.000", silent: "35.000", silentNow: "0.000",
			kept: "0.333", floor: "33.333",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.with != nil {
				test.with(test.terms)
			}
			p := test.terms.Promise()
			for _, bound := range []struct {
				name string
				got  int64
				want string
			}{
				{"burst", p.Burst, test.burst}, {"rate", p.Rate, test.rate}, {"excess", p.Excess, test.excess}, {"moving", p.Moving, test.moving},
				{"first touch", p.FirstTouch, test.touch}, {"step", p.Step, test.step},
				{"steady rate", p.SteadyRate, test.steadyRate}, {"steady burst", p.SteadyBurst, test.steadyBurst},
				{"silent", p.SilentRate, test.silent}, {"silent now", p.SilentNow, test.silentNow},
				{"kept", p.KeptRate, test.kept}, {"floor", p.FloorRate, test.floor},
			} {
				if got := tokens(bound.got); got != bound.want {
					t.Errorf("%s: %s, want %s", bound.name, got, bound.want)
				}
			}
			if !p.Measured {
				t.Error("all was measured")
			}
			if homed := test.terms.Config.Homed(test.terms.Limit); homed != (p.Turn == 10*time.Second) || !homed && p.Turn != 0 {
				t.Errorf("turn %v, homed %v", p.Turn, homed)
			}
		})
	}
}

func TestPromiseOfTimes(t *testing.T) {
	p := terms(Strict).Promise()
	if p.ToHot != 1290*time.Millisecond || p.ToFollow != 1540*time.Millisecond {
		t.Errorf("%v to become hot, want 0.25 s and twice 0.52 s; %v to follow, want 0.25 s more", p.ToHot, p.ToFollow)
	}
	busy := terms(Strict)
	busy.Pace = time.Second // 20,000 busy keys in a region
	if p := busy.Promise(); p.ToHot != 4890*time.Millisecond || p.ToFollow != 6940*time.Millisecond {
		t.Errorf("%v to become hot, want 2.05 s and twice 1.42 s; %v to follow, want 2.05 s more", p.ToHot, p.ToFollow)
	}
	if got := p.CutOff.Round(10 * time.Millisecond); got != 21220*time.Millisecond {
		t.Errorf("cut off for %v, want 2 x 10 s x 1.02^3", got)
	}
}

// TestPromiseBeforeAnyMeasurement: what needs no measurement is known all the same.
func TestPromiseBeforeAnyMeasurement(t *testing.T) {
	for _, unknown := range []func(*Terms){
		func(t *Terms) { t.RoundTrip = -1 }, func(t *Terms) { t.Quorum = -1 },
	} {
		known, short := terms(Strict).Promise(), terms(Strict)
		unknown(short)
		p := short.Promise()
		if p.Measured || p.FirstTouch != 0 || p.Step != 0 || p.ToHot != 0 || p.ToFollow != 0 {
			t.Errorf("%+v follows from a round trip or a commit that nobody has measured", p)
		}
		if p.Burst != known.Burst || p.SteadyRate != known.SteadyRate || p.CutOff != known.CutOff {
			t.Errorf("%+v, want as much as in %+v", p, known)
		}
	}
}

// TestPromiseOfTheLargestLimit stays within 64 bits at the largest limit there is, a
// billion tokens, for 63 regions.
func TestPromiseOfTheLargestLimit(t *testing.T) {
	names := make([]string, 63)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	c := budget.NewConfig(names, 10*time.Second, 20_000)
	const billion = 1_000_000_000 * million
	for _, e := range []Enforcement{Strict, Elastic, Independent} {
		all := &Terms{Limit: budget.KeyLimit{Capacity: billion, Rate: billion, RateFrac: 1}, Enforcement: e, Config: &c, RoundTrip: time.Second, Quorum: time.Second}
		p := all.Promise()
		for _, amount := range []int64{p.Burst, p.Rate, p.Excess, p.FirstTouch, p.Step, p.SteadyRate, p.SteadyBurst, p.SilentRate, p.KeptRate} {
			if amount < 0 || amount > 64*11*billion {
				t.Errorf("enforcement %d: %d micro-tokens in %+v", e, amount, p)
			}
		}
	}
}
