package charge_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// TestADecisionIsRenewedIfItsChargesStay: under other rules it goes on as one of theirs if a new request would be charged
// the same.
func TestADecisionIsRenewedIfItsChargesStay(t *testing.T) {
	const (
		text = "rules: [{id: r0, enforcement: strict, key: [api_key], params: {capacity: %d, refill_rate: 1}}%s]"
		more = ", {id: r1, key: [api_key], params: {capacity: 9, refill_rate: 1}, match: {api_key_pattern: %s}}"
	)
	for _, c := range []struct {
		after string
		same  bool
	}{
		{fmt.Sprintf(text, 5, fmt.Sprintf(more, "other")), true},
		{fmt.Sprintf(text, 4, ""), false},
		{fmt.Sprintf(text, 5, fmt.Sprintf(more, "k")), false},
		{"rules: []", false},
	} {
		m := telemetry.New("us", "test", prometheus.NewRegistry())
		p := policy.New("us", false, func() budget.Instant { return chargetest.Noon }, slog.New(slog.DiscardHandler), m)
		p.SetCluster(policy.Cluster{Secret: []byte("0123456789abcdef0123456789abcdef")})
		set := func(version uint64, yaml string) *policy.Policy {
			t.Helper()
			if err := p.SetRules(policy.RuleText{Version: version, YAML: yaml, Numbers: map[string]uint32{"r0": 1, "r1": 2}}); err != nil {
				t.Fatal(err)
			}
			return p.Load()
		}
		r := charge.Request{Attributes: rules.Attributes{{Name: "api_key", Value: "k"}}, Cost: limit.Token}
		var d charge.Decision
		d.Plan(set(1, fmt.Sprintf(text, 5, "")), &r, 0, nil)
		if same := d.Renew(set(2, c.after), &r, 0); same != c.same || d.Groups[0].Charges[0].Rules.Version != map[bool]uint64{false: 1, true: 2}[same] {
			t.Errorf("%s: %t, of version %d", c.after, same, d.Groups[0].Charges[0].Rules.Version)
		}
	}
}
