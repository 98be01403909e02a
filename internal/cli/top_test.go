package cli

import (
	"bytes"
	"strings"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

func budgetOf(key string, offeredUS, admittedUS, offeredEU int64) *aliquotv1.Budget {
	return &aliquotv1.Budget{RuleId: "per-key", KeyHash: key, Limit: &aliquotv1.Limit{Capacity: 300, RefillRate: 100}, Regions: []*aliquotv1.RegionBudget{
		{Region: "us", Share: .75, Offered: offeredUS, Admitted: admittedUS}, {Region: "eu", Share: .25, Offered: offeredEU, Admitted: offeredEU},
	}}
}

// The rates of top are differences of two looks. The limit that is used most is the first.
func TestUsages(t *testing.T) {
	before := []*aliquotv1.Budget{budgetOf("calm", 1000, 1000, 50), budgetOf("flooded", 500, 500, 70)}
	after := []*aliquotv1.Budget{
		budgetOf("calm", 1010, 1010, 60),
		budgetOf("flooded", 900, 640, 8), // eu's session is new, so its counters began again
		budgetOf("new", 30, 20, 0),
	}
	got := usages(before, after, 2)
	var out bytes.Buffer
	printTop(&out, got, 2, false)
	for i, want := range []struct {
		key                    string
		offered, admitted, use float64
	}{{"flooded", 204, 74, 2.04}, {"new", 15, 10, .15}, {"calm", 10, 10, .1}} {
		if u := got[i]; u.KeyHash != want.key || u.Offered != want.offered || u.Admitted != want.admitted || u.Use != want.use {
			t.Errorf("place %d: %+v, want %+v", i, u, want)
		}
	}
	for _, want := range []string{"per-key  flooded  300, 100/s  204", "204.0%", "us: 75.0%, 70  eu: 25.0%, 4", "and 1 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	out.Reset()
	if printTop(&out, nil, 2, true); !strings.HasPrefix(out.String(), clearScreen) || !strings.Contains(out.String(), "no key is hot") {
		t.Errorf("%q", out.String())
	}
}

// Without a coordinator top says so, and wrong numbers are refused.
func TestTopErrors(t *testing.T) {
	command(t, "", "top", "--once", "--addr", unused(t)).want(t, exitError, "connection refused", "aliquot dev")
	command(t, "", "top", "-n", "0").want(t, exitUsage, "--number 0")
	command(t, "", "top", "--interval", "10ms").want(t, exitUsage, "--interval 10ms")
}
