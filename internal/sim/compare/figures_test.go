package compare

import (
	"math"
	"testing"
	"time"
)

// The figures that docs/explanation/comparison.md shows and the project promises, in virtual time:
// the same on every machine.

// meanOf runs a workload over several seeds.
func meanOf(t *testing.T, kind string, load Workload, figure func(Outcome) float64) float64 {
	t.Helper()
	sum := 0.0
	for seed := range figureRuns {
		o, err := Run(KindOf(kind), load, uint64(seed)+1)
		if err != nil {
			t.Fatal(err)
		}
		sum += figure(o)
	}
	return sum / figureRuns
}

func used(o Outcome) float64 { return o.Utilisation }

// steadyMoves is how many shares may move a minute, in any run, under a demand that stays as
// it is but for chance: it makes some tens of them. Shares that swung moved 400 times.
const steadyMoves = 120

func TestSkewSweepIsUsedAndSharesDoNotSwing(t *testing.T) {
	for i, s := range Skews() {
		for _, kind := range []string{"strict", "elastic"} {
			got := meanOf(t, kind, Skew(s), func(o Outcome) float64 {
				if o.MovesAMinute > steadyMoves {
					t.Errorf("skew %.2f, %s: shares move %.1f times a minute", s, kind, o.MovesAMinute)
				}
				return o.Utilisation
			})
			if got < .98 {
				t.Errorf("skew %.2f, %s: %.4f of the limit is used", s, kind, got)
			}
		}
		want := []float64{1, .83, .67, .5, .33}[i]
		if got := meanOf(t, "static split", Skew(s), used); math.Abs(got-want) > .01 {
			t.Errorf("skew %.2f: a static split uses %.4f, should be %.2f", s, got, want)
		}
	}
}

func TestDemandStepIsFollowed(t *testing.T) {
	times, err := Converge(KindOf("strict"), convergeRuns, apart)
	if err != nil {
		t.Fatal(err)
	}
	p50, p99 := percentile(times, .5), percentile(times, .99)
	t.Logf("p50 %v, p99 %v", p50, p99)
	if p50 > 400*time.Millisecond || p99 > time.Second {
		t.Errorf("95 %% of the limit is usable after %v (p50), %v (p99)", p50, p99)
	}
}

func TestFloodLeavesOthersTheirPart(t *testing.T) {
	for _, kind := range []string{"strict", "elastic"} {
		if got := meanOf(t, kind, Flood(), func(o Outcome) float64 { return o.LeastServed }); got < .99 {
			t.Errorf("%s: beside 100,000 retries a second another region gets %.4f of min(demand, r/3)", kind, got)
		}
	}
	if got := meanOf(t, "central, closed", Flood(), func(o Outcome) float64 { return o.LeastServed }); got > .5 {
		t.Errorf("one bucket for all leaves %.4f of it: the flood is none", got)
	}
}

func TestCrowdIsNotRefusedByMistake(t *testing.T) {
	for _, kind := range []string{"strict", "elastic"} {
		o := outcomeOf(t, kind, Crowd(500))
		if o.FalseRejections >= .001 {
			t.Errorf("%s: %.5f of the requests are refused that one exact bucket admits", kind, o.FalseRejections)
		}
	}
}

// Burst, pause, burst: the extra bursts of an elastic limit come once, and all of them.
func TestElasticBursts(t *testing.T) {
	for _, w := range []Workload{Pulse(3 * time.Second), Pulse(20 * time.Second)} {
		o := outcomeOf(t, "elastic", w)
		if o.Excess > regions-1 || o.Excess < .9*(regions-1) {
			t.Errorf("%s: %.4f bursts above the strict bound, want at most and nearly %d", w.Name, o.Excess, regions-1)
		}
	}
}

// The decision of a region does not wait for another: the distance changes nothing.
func TestLatencyIsThatOfTheOwnStore(t *testing.T) {
	near, far := outcomeOf(t, "strict", Far(Rotation(), time.Millisecond)), outcomeOf(t, "strict", Far(Rotation(), 200*time.Millisecond))
	if far.LatencyP99 > 2*time.Millisecond || near.LatencyP99 > 2*time.Millisecond {
		t.Errorf("p99 %v at 1 ms, %v at 200 ms", near.LatencyP99, far.LatencyP99)
	}
	if central := outcomeOf(t, "central, open", Far(Rotation(), 200*time.Millisecond)); central.LatencyP50 < 200*time.Millisecond {
		t.Errorf("a central store answers in %v over 200 ms", central.LatencyP50)
	}
}

// What the others do: each peer shows the weakness it is known for, or it is not a fair
// picture of it.
func TestPeersAreWhatTheyAre(t *testing.T) {
	rotation, broken := Rotation(), Broken(Everywhere())
	for _, c := range []struct {
		kind      string
		load      Workload
		low, high float64
		what      string
		figure    func(Outcome) float64
	}{
		{"independent", rotation, 2.9, 3.001, "gain", func(o Outcome) float64 { return o.Gain }},
		{"static split", rotation, .99, 1, "gain", func(o Outcome) float64 { return o.Gain }},
		{"central, closed", rotation, .99, 1, "gain", func(o Outcome) float64 { return o.Gain }},
		{"ideal", rotation, .99, 1, "gain", func(o Outcome) float64 { return o.Gain }},
		{"gossip 100ms", rotation, 1.1, 2, "ratio", func(o Outcome) float64 { return o.Ratio }},
		{"gossip 1s", rotation, 2, 3, "ratio", func(o Outcome) float64 { return o.Ratio }},
		{"leases", rotation, .8, 1, "gain", func(o Outcome) float64 { return o.Gain }},
		{"central, open", broken, 10, 1000, "ratio", func(o Outcome) float64 { return o.Ratio }},
		{"central, closed", broken, .5, .9, "least served", func(o Outcome) float64 { return o.LeastServed }},
		{"gossip 100ms", broken, 1.05, 3, "gain", func(o Outcome) float64 { return o.Gain }},
	} {
		if got := c.figure(outcomeOf(t, c.kind, c.load)); got < c.low || got > c.high {
			t.Errorf("%s, %s: %s %.4f, want %.3f to %.3f", c.kind, c.load.Name, c.what, got, c.low, c.high)
		}
	}
}
