package latency

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramQuantilesAreAtMostThreePercentTooHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration"))
		if up := upperEdge(bucketOf(d)); up < d || float64(up) > float64(d)*1.04+1 {
			t.Fatalf("%d ns counts as up to %d ns", d, up)
		}
	})
	var h Histogram
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Microsecond)
	}
	if q := h.Quantile(.99); q < 990*time.Microsecond || q > 1000*time.Microsecond {
		t.Errorf("p99 = %v", q)
	}
	if h.Quantile(1) != h.max {
		t.Errorf("p100 = %v, max %v", h.Quantile(1), h.max)
	}
}
