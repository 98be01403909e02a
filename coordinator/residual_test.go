package coordinator_test

import (
	"fmt"
	"math"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestResidualExcess: a limit is lowered while one region is cut off; any node tells
// what that region may admit beyond it until it has heard.
func TestResidualExcess(t *testing.T) {
	t.Parallel()
	_, followers := split(t, startCluster(t, 3))
	r := followers[0]
	const limited = "rules: [{id: r1, enforcement: strict, params: {capacity: %d, refill_rate: %d}}]"
	r.applyRules(t, fmt.Sprintf(limited, 1000, 100))
	usage := func(string, bool) []*aliquotv1.KeyReport { return nil }
	inBackground(t, usage, newRegion(r.lease, "us"), newRegion(r.lease, "eu"))
	waitFloors(t, r, "us active 0.333 live", "eu active 0.333 live")
	shows := func(burst, rate float64) func() string {
		return func() string {
			res, err := r.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "r1", Key: map[string]string{"api_key": "k"}})
			b := res.GetBudget()
			if err != nil || math.Abs(b.GetResidualExcess()-burst) > 0.01 || math.Abs(b.GetResidualExcessRate()-rate) > 0.01 {
				return fmt.Sprintf("residual excess %v and %v a second, want %v and %v: %v", b.GetResidualExcess(), b.GetResidualExcessRate(), burst, rate, err)
			}
			return ""
		}
	}
	eventually(t, shows(0, 0))
	r.applyRules(t, fmt.Sprintf(limited, 200, 20))
	eventually(t, shows(800.0/3, 80.0/3)) // ap has not been heard of since
	inBackground(t, usage, newRegion(r.lease, "ap"))
	eventually(t, shows(0, 0))
}
