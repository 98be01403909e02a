package api

import (
	"net/http"
	"testing"
)

// TestARefusedCallOfEnvoy hears no 5xx, of which Envoy may let a request pass.
func TestARefusedCallOfEnvoy(t *testing.T) {
	for path, want := range map[string]int{"/check/v1/orders": 429, "/check": 503, "/aliquot.v1.LimiterService/Check": 503} {
		r, err := http.NewRequest(http.MethodGet, "http://here"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := refusedStatus(r); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
