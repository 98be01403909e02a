package bench

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bruteForce tries every interval that starts at a sending and ends at a receipt.
func bruteForce(limit Limit, all []admission) (worst, excess float64) {
	excess = math.Inf(-1)
	for _, a := range all {
		for _, b := range all {
			n := 0
			for _, x := range all {
				if x.sent >= a.sent && x.received <= b.received {
					n++
				}
			}
			if n > 0 {
				worst = max(worst, float64(n)/limit.Bound(b.received-a.sent))
				excess = max(excess, float64(n)-limit.Bound(b.received-a.sent))
			}
		}
	}
	return worst, excess
}

func TestWorstWindowIsTheWorstOfAllIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{Capacity: float64(rapid.IntRange(1, 5).Draw(t, "capacity")), Refill: float64(rapid.IntRange(1, 50).Draw(t, "refill"))}
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) admission {
			sent := time.Duration(rapid.IntRange(0, 1000).Draw(t, "sent")) * time.Millisecond
			return admission{sent: sent, received: sent + time.Duration(rapid.IntRange(1, 80).Draw(t, "took"))*time.Millisecond}
		}), 1, 40).Draw(t, "admissions")
		found := intervalsOf(all)
		got, excess := found.worst(limit), found.excess(limit)
		want, most := bruteForce(limit, all)
		if math.Abs(got.Gain-want) > 1e-9 {
			t.Fatalf("gain %v in %v..%v, want %v", got.Gain, got.From, got.To, want)
		}
		if math.Abs(excess-most) > 1e-9 {
			t.Fatalf("excess %v, want %v", excess, most)
		}
	})
}

func TestWorstWindowFindsABurstThatTheWholeRunHides(t *testing.T) {
	var all []admission
	add := func(at time.Duration) { all = append(all, admission{sent: at, received: at + time.Millisecond}) }
	for i := range 12 { // 12 at once at 5 s, where 10 are allowed
		add(5*time.Second + time.Duration(i)*time.Microsecond)
	}
	add(0)
	add(20 * time.Second)
	w := intervalsOf(all).worst(Limit{Capacity: 10, Refill: 1})
	if w.Admitted != 12 || w.Gain < 1.19 || w.From != 5*time.Second {
		t.Errorf("found %+v", w)
	}
	if whole := 14 / (Limit{Capacity: 10, Refill: 1}).Bound(20*time.Second); whole > 1 {
		t.Errorf("the whole run exceeds by itself: %v", whole)
	}
}

func TestWorstWindowOfNothing(t *testing.T) {
	if w := intervalsOf(nil).worst(Limit{Capacity: 1, Refill: 1}); w.Gain != 0 {
		t.Errorf("%+v", w)
	}
}

func BenchmarkWorstWindow(b *testing.B) {
	all := make([]admission, 100_000)
	for i := range all {
		at := time.Duration(i) * 300 * time.Microsecond
		all[i] = admission{sent: at, received: at + time.Millisecond}
	}
	for b.Loop() {
		intervalsOf(all).worst(Limit{Capacity: 300, Refill: 100})
	}
}
