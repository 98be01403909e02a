package regional

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// holdersWithin bounds the wait for what other regions hold, because callers of Explain need the
// rest of the answer more.
const holdersWithin = 500 * time.Millisecond

// holders asks the coordinators what the regions hold of a key. Only Explain waits for the answer,
// and never a check.
type holders struct {
	peers   *coordinators
	clients []aliquotv1connect.BudgetServiceClient
}

func newHolders(peers *coordinators, client *http.Client) *holders {
	h := &holders{peers: peers}
	for _, address := range peers.addresses {
		h.clients = append(h.clients, aliquotv1connect.NewBudgetServiceClient(client, rpc.BaseURL(address), connect.WithReadMaxBytes(maxAnswer)))
	}
	return h
}

// of returns what all regions but self hold of a key. The call identifies the key by its hash.
func (h *holders) of(ctx context.Context, self, rule string, key budget.KeyID) ([]*aliquotv1.RegionHolding, error) {
	ctx, cancel := context.WithTimeout(ctx, holdersWithin)
	defer cancel()
	_, i := h.peers.pick()
	out, err := h.clients[i].GetBudget(ctx, &aliquotv1.GetBudgetRequest{RuleId: rule, KeyHash: key.Hash[:]})
	switch {
	case errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return nil, errors.New("no coordinator has answered in time")
	case err != nil:
		return nil, errors.New("no coordinator could tell: " + connect.CodeOf(err).String())
	}
	var others []*aliquotv1.RegionHolding
	for _, r := range out.GetBudget().GetRegions() {
		if r.GetRegion() != self {
			others = append(others, &aliquotv1.RegionHolding{
				Region: r.GetRegion(), RateShare: r.GetShare(), BurstShare: r.GetBurstShare(), State: r.GetState(), Tokens: r.GetTokens(),
			})
		}
	}
	return others, nil
}
