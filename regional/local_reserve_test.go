package regional

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/chunk"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// TestReserveTakesWhatIsBorrowedAlong: of clients that are busy all there is can be reserved,
// also what is on its way here just then, unless it leaves once more before the second try;
// and again is answered as at first.
func TestReserveTakesWhatIsBorrowedAlong(t *testing.T) {
	stores(t, func(t *testing.T, redis string) {
		c := testConfig(newLeader(t, strictRule(2000, slow, "")).address())
		c.Redis = redis
		d, _ := startLive(t, c)
		const clients = 20
		reserved := 0
		for i := range clients {
			attributes := map[string]string{"api_key": fmt.Sprint("k", i)}
			key := planOf(d, attributes["api_key"]).groups[0].asks[0].key
			passed := int64(0)
			eventually(t, "a chunk", func() bool {
				for range 10 {
					out, err := d.service.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: attributes})
					switch {
					case err == nil && out.GetMode() == modeEmergency:
					case err != nil || !out.GetAllowed():
						t.Fatalf("%v, %v", out, err)
					default:
						passed++
					}
				}
				return d.auth.local.left(key) > 0
			})
			in := &aliquotv1.ReserveRequest{Attributes: attributes, Id: attributes["api_key"], Cost: proto.Int64(1000 - passed)}
			first := reserveFor(t, d, in)
			if first.GetId() == "" {
				continue
			}
			reserved++
			if again := reserveFor(t, d, in); !proto.Equal(again, first) {
				t.Errorf("answered %v, at first %v", again, first)
			}
		}
		if reserved < clients-2 && !missedDeadlines(t)(d) {
			t.Errorf("%d of %d reserved all there is", reserved, clients)
		}
	})
}

// TestRepeatedReservationLosesNothing: the store has looked at nothing, so what was taken
// along is here again.
func TestRepeatedReservationLosesNothing(t *testing.T) {
	auth := newAuthority(budget.NewRegion(0, budget.Config{}, 1, noon), newClockMap(), func() budget.Instant { return noon })
	rule := &rules.Rule{ID: "r0", LocalCache: true}
	e := lent(t, auth.local, rule)
	groups := []*group{{asks: []ask{{rule: rule, key: e.key, cost: limit.Token}}}}
	(&limiter{auth: auth}).recall(groups)
	auth.local.bring(&header{}, groups[0], noon)
	asked := &groups[0].asks[0].asked
	if asked.Back != 10*limit.Token || asked.Want != 0 || e.chunk.Look(limit.Token, noon) == chunk.Holds {
		t.Errorf("taken along: %+v, %d are left", asked, e.chunk.Left())
	}
	unmade(groups)
	if e.chunk.Left() != 10*limit.Token || e.chunk.Look(limit.Token, noon) != chunk.Holds || e.chunk.TellLost() != 0 || e.chunk.Awaits() {
		t.Errorf("%d are left", e.chunk.Left())
	}
}
