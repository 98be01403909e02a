package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The largest ratio of all intervals is the one that looking at every interval finds.
func TestRatioIsThatOfTheWorstInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var h history
		at := time.Duration(0)
		for range 1 + rng.IntN(30) {
			at += time.Duration(rng.IntN(400)) * time.Millisecond
			h = append(h, admission{at, 1 + rng.IntN(8)})
		}
		capacity, rate := 1+20*rng.Float64(), 1+30*rng.Float64()
		want, over := 0.0, 0.0
		for i := range h {
			sum := 0
			for j := i; j < len(h); j++ {
				sum += h[j].n
				length := (h[j].at - h[i].at).Seconds()
				want = max(want, float64(sum)/(capacity+rate*length))
				over = max(over, float64(sum)-rate*length)
			}
		}
		if got := h.ratio(capacity, rate); math.Abs(got-want) > 1e-9 {
			t.Fatalf("ratio %v, the worst interval's is %v (C %v, r %v, %v)", got, want, capacity, rate, h)
		}
		if got, _, _ := h.overdraft(rate); math.Abs(got-over) > 1e-9 {
			t.Fatalf("overdraft %v, the worst interval's is %v", got, over)
		}
	}
}

func TestConvergedIsTheLastTimeItFellBehind(t *testing.T) {
	var h history
	// Nothing for 400 ms after the step at 1 s, then 100 a second.
	for at := 1400 * time.Millisecond; at < 5*time.Second; at += 10 * time.Millisecond {
		h = append(h, admission{at, 1})
	}
	if got := h.converged(time.Second, 5*time.Second, 95); got != 400*time.Millisecond {
		t.Errorf("converged after %v, want 400ms", got)
	}
	if got := h.converged(time.Second, 5*time.Second, 110); got != 4*time.Second {
		t.Errorf("converged at a rate that it never has after %v, want the end", got)
	}
}

func TestFairParts(t *testing.T) {
	for _, c := range []struct {
		demands []int
		want    []float64
	}{
		{[]int{100, 100, 100}, []float64{30, 30, 30}},
		{[]int{10, 100, 100}, []float64{10, 40, 40}},
		{[]int{0, 20, 1000}, []float64{0, 20, 70}},
		{[]int{1, 2, 3}, []float64{1, 2, 3}},
	} {
		got := fairParts(90, c.demands)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("90 over %v: %v, want %v", c.demands, got, c.want)
				break
			}
		}
	}
}
