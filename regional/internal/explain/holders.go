package explain

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

// maxBudget bounds a coordinator's answer.
const maxBudget = 32 << 20

// Holders asks the coordinators what the regions hold of a key. Only an explanation waits for the
// answer, and never a check. Safe for concurrent use.
type Holders struct {
	clients []aliquotv1connect.BudgetServiceClient
	// current returns the index of the coordinator to ask.
	current func() int
}

// NewHolders returns the holders that coordinators at these addresses know. current returns the
// index of the one to ask.
func NewHolders(addresses []string, current func() int, client *http.Client) *Holders {
	h := &Holders{current: current}
	for _, address := range addresses {
		h.clients = append(h.clients, aliquotv1connect.NewBudgetServiceClient(client, rpc.BaseURL(address), connect.WithReadMaxBytes(maxBudget)))
	}
	return h
}

// of returns what all regions but self hold of a key. The call identifies the key by its hash.
func (h *Holders) of(ctx context.Context, self, rule string, key budget.KeyID) ([]*aliquotv1.RegionHolding, error) {
	ctx, cancel := context.WithTimeout(ctx, holdersWithin)
	defer cancel()
	out, err := h.clients[h.current()].GetBudget(ctx, &aliquotv1.GetBudgetRequest{RuleId: rule, KeyHash: key.Hash[:]})
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
