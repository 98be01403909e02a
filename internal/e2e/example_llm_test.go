package e2e

import (
	"fmt"
	"testing"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestLLM takes the steps of the example of language models: four limits are reserved in
// one call, the truth is settled once, and a request that one limit can never admit takes
// nothing of the others.
func TestLLM(t *testing.T) {
	t.Parallel()
	cluster, _ := startCluster(t, Setup{InMemory: true}, "../../deploy/examples/llm/rules.yaml")
	client := aliquotv1connect.NewLimiterServiceClient(cluster.HTTP, rpc.BaseURL(cluster.Regions[0].Address))
	err := Until(t.Context(), inForceWithin, "deciding by the example", func() error {
		answer, err := client.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"org": "other"}})
		if err == nil && len(answer.GetLimits()) != 2 { // nothing is said of tokens
			err = fmt.Errorf("mode %s, limits %v", answer.GetMode(), answer.GetLimits())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	in := &aliquotv1.ReserveRequest{Attributes: map[string]string{"org": "acme"}, Id: "req-1", Costs: map[string]int64{"tokens_in": 800, "tokens_out": 2000}}
	reserved, err := client.Reserve(t.Context(), in)
	if err != nil || !reserved.GetDecision().GetAllowed() || len(reserved.GetDecision().GetLimits()) != 4 {
		t.Fatalf("%v %v, want four limits, allowed", reserved, err)
	}
	truth := &aliquotv1.SettleRequest{Id: reserved.GetId(), Costs: map[string]int64{"tokens_in": 812, "tokens_out": 640}}
	for i, want := range []string{"settled", "already_settled"} {
		settled, err := client.Settle(t.Context(), truth)
		if err != nil || settled.GetState() != want {
			t.Fatalf("%v %v, want it %s", settled, err, want)
		}
		if i > 0 {
			continue
		}
		got := map[string]*aliquotv1.SettledLimit{}
		for _, l := range settled.GetLimits() {
			got[l.GetRuleId()] = l
		}
		if l := got["llm-tokens-out"]; l.GetReserved() != 2000 || l.GetUsed() != 640 || l.GetRefunded() != 1360 {
			t.Errorf("tokens out: %v, want 1360 refunded", l)
		}
		if l := got["llm-tokens-in"]; l.GetReserved() != 800 || l.GetUsed() != 812 || l.GetCharged() != 12 {
			t.Errorf("tokens in: %v, want 12 charged", l)
		}
	}
	in.Id, in.Costs = "req-2", map[string]int64{"tokens_in": 800, "tokens_out": 200_001}
	refused, err := client.Reserve(t.Context(), in)
	if err != nil || refused.GetDecision().GetAllowed() || !refused.GetDecision().GetNever() {
		t.Errorf("%v %v, want it refused for ever", refused, err)
	}
}
