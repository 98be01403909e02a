package check

import (
	"testing"

	"aliquot/internal/sim/check/search"
)

func BenchmarkSearch(b *testing.B) {
	for _, sc := range Scenarios() {
		b.Run(sc.Name, func(b *testing.B) {
			var r Result
			for b.Loop() {
				r = sc.Search(search.Bound{States: 60_000})
			}
			b.ReportMetric(float64(r.Took.Nanoseconds())/float64(r.Transitions), "ns/transition")
		})
	}
}
