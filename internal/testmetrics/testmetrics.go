// Package testmetrics reads metrics for tests.
package testmetrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter returns what a counter without labels stands at. It fails the test if there is no such metric.
func Counter(t testing.TB, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
