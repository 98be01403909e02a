package regional

import (
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
)

// maxCost is the largest cost that a request may have.
const maxCost = 1_000_000_000_000

// TestACostBeyondAllLimits of a unit that no rule counts changes nothing: the store
// decides what the request costs of the others, and no fallback lets it pass.
func TestACostBeyondAllLimits(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, `
rules:
  - id: r0
    unit: tokens_in
    on_redis_failure: open
    enforcement: independent
    params: {capacity: 3, refill_rate: 0.001}
`).address())
		d, _ := startLive(t, c)
		for i, left := range []int64{2, 1, 0, 0} {
			in := &aliquotv1.CheckRequest{
				Attributes: map[string]string{"api_key": "k"}, Cost: proto.Int64(maxCost), Costs: map[string]int64{"tokens_in": 1},
			}
			out := askFor(t, d, in)
			if !byTheLimit(out.GetMode()) || out.GetAllowed() != (i < 3) || out.GetRemaining() != left {
				t.Fatalf("request %d: %v", i, out)
			}
		}
	})
}

// TestSettleBeyondAllLimits: what was used is what the caller says, however much; the
// limit goes into debt as far as it may.
func TestSettleBeyondAllLimits(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		id := reserveFor(t, d, estimate("call-1")).GetId()
		out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_in": maxCost}})
		l := out.GetLimits()[1]
		if out.GetState() != engine.StateSettled || l.GetUsed() != maxCost || l.GetCharged() != 700+1000 {
			t.Errorf("%v", out)
		}
	})
}
