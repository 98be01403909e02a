package regional

import (
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"

	"aliquot/regional/internal/engine"
)

// TestReservationOfAStranger: a caller who guesses the id that another one chose does not settle the
// reservation, and is answered as if it did not exist.
func TestReservationOfAStranger(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		for name, stranger := range map[string]*aliquotv1.ReserveRequest{
			"another API key":   {Attributes: map[string]string{"api_key": "k8", "org": "o2"}},
			"another user":      {Attributes: map[string]string{"user": "u8", "org": "o2"}},
			"another address":   {Attributes: map[string]string{"ip": "192.0.2.8", "org": "o2"}},
			"only another org":  {Attributes: map[string]string{"org": "o2"}},
			"another namespace": {Attributes: client7, Namespace: "other"},
		} {
			mine := reserveFor(t, d, estimate("id of "+name)).GetId()
			stranger.Id = "id of " + name
			code := func(id string) string {
				return storeCode(t, func() error {
					_, err := limiterClient(d).Settle(t.Context(), &aliquotv1.SettleRequest{Id: id, Namespace: stranger.Namespace, Cost: proto.Int64(0)})
					return err
				})
			}
			if a, b := code(stranger.Id), code("never made"); a != "not_found" || a != b {
				t.Errorf("%s settles a guessed id: %s; one that was never made: %s", name, a, b)
			}
			theirs, err := limiterClient(d).Reserve(t.Context(), stranger)
			if err != nil || theirs.GetId() == "" || theirs.GetId() == mine && stranger.Namespace == "" {
				t.Fatalf("%s reserves by a guessed id: %v, %v", name, theirs, err)
			}
			if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: theirs.GetId(), Namespace: stranger.Namespace}); out.GetState() != engine.StateSettled {
				t.Errorf("%s settles its own reservation: %v", name, out)
			}
			if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: mine, Costs: map[string]int64{"tokens_in": 0, "tokens_out": 0}}); out.GetState() != engine.StateSettled || out.GetLimits()[1].GetUsed() != 0 {
				t.Errorf("after %s came: %v", name, out)
			}
		}
	})
}
