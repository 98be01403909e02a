package coordinator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	clusterstate "aliquot/cluster/state"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// budgetView is one budget that is prepared for a caller.
type budgetView struct {
	key    budget.KeyID
	budget *aliquotv1.Budget
	// Only for GetBudget: the limit in force, older limits, and what each region may be enforcing.
	limit  budget.KeyLimit
	older  []olderLimit
	shares []budget.Share
}

// protosOf returns the messages of the views.
func protosOf(all []budgetView) []*aliquotv1.Budget {
	out := make([]*aliquotv1.Budget, len(all))
	for i, b := range all {
		out[i] = b.budget
	}
	return out
}

// viewOf returns the replicated part of a budget: the liabilities of a hot key, else the floors.
func viewOf(s *clusterstate.State, rule *rules.Rule, key budget.KeyID, l limit.Limit, window time.Duration) budgetView {
	shares := s.Ledger.Shares(key)
	b := &aliquotv1.Budget{
		RuleId: rule.ID, KeyHash: leader.HashText(key), Hot: shares != nil, AppliedIndex: s.AppliedIndex,
		Limit: &aliquotv1.Limit{
			Capacity: int64(l.Capacity / limit.Token), RefillRate: leader.RatePerSecond(l), Window: durationpb.New(window),
		},
	}
	setBounds(b, rule, l, &s.Ledger.Config)
	if rule.Enforcement == rules.Independent {
		b.Hot = false
	}
	pool := int32(budget.Unit)
	for i, r := range s.Ledger.Config.Regions {
		share, state := r.Floor, stateCold
		switch {
		case rule.Enforcement == rules.Independent:
			share, state = independentShare(&r), stateIndependent
		case shares != nil:
			share, state = shares[i], stateUnknown
		}
		pool -= share.Rate
		b.Regions = append(b.Regions, &aliquotv1.RegionBudget{
			Region: r.Name, Share: leader.Fraction(share.Rate), BurstShare: leader.Fraction(share.Burst),
			Rate:  leader.Fraction(share.Rate) * leader.RatePerSecond(l),
			Burst: leader.Fraction(share.Burst) * float64(l.Capacity) / leader.MicroToken,
			State: state, LeaseRemaining: durationpb.New(0),
		})
	}
	b.PoolShare = leader.Fraction(max(0, pool))
	return budgetView{key: key, budget: b}
}

// independentShare returns what a region enforces of a limit that is not coordinated: all of it, while
// its daemon runs.
func independentShare(r *budget.RegionConfig) budget.Share {
	if r.Fenced {
		return budget.Share{}
	}
	return budget.Share{Rate: budget.Unit, Burst: budget.Unit}
}

func unknownRule(id string, version uint64) error {
	return fmt.Errorf("%w %q in rules version %d", errUnknownRule, shorten(id), version)
}

// hotKeys iterates over the hot keys among the sorted keys, after the given key; only those of one rule
// if only is not nil. It skips keys whose rule is gone. A budget found this way shows the rule's own
// limit: overrides are by API key, which a coordinator does not have.
func hotKeys(s *clusterstate.State, keys []budget.KeyID, only *rules.Rule, after *budget.KeyID) iter.Seq2[budget.KeyID, *rules.Rule] {
	byNumber := leader.RulesByNumber(s, only)
	return func(yield func(budget.KeyID, *rules.Rule) bool) {
		if after != nil {
			i, found := slices.BinarySearchFunc(keys, *after, budget.KeyID.Compare)
			if found {
				i++
			}
			keys = keys[i:]
		}
		for _, key := range keys {
			rule := byNumber[key.Rule]
			if rule == nil || s.Ledger.Shares(key) == nil {
				continue
			}
			if !yield(key, rule) {
				return
			}
		}
	}
}

// addLeaderState adds what only the leader knows: from the state machine if it runs here, else from the
// answer of ask. If neither is available the states stay unknown. It returns the status from the state
// machine; nil if the machine does not run here.
func (s *budgetService) addLeaderState(ctx context.Context, all []budgetView, ask func(context.Context) ([]*aliquotv1.Budget, error)) *leader.BudgetStatus {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLeader)
	defer cancel()
	if loop := s.leadership.Current(); loop != nil {
		keys := make([]budget.KeyID, len(all))
		for i := range all {
			keys[i] = all[i].key
		}
		known, err := loop.BudgetStatus(ctx, keys)
		if err != nil {
			return nil
		}
		addStatus(all, known)
		return known
	}
	if ask == nil {
		return nil
	}
	if budgets, err := ask(ctx); err == nil {
		addLeaderAnswer(all, budgets)
	}
	return nil
}

// addStatus adds the leader's status to the views. A key that only one of the ledger and the state
// machine has stays as it was read.
func addStatus(all []budgetView, known *leader.BudgetStatus) {
	for i, b := range all {
		b.budget.ExcessObserved = known.Excess[i]
		for j, region := range b.budget.GetRegions() {
			if j >= len(known.Regions) {
				break // declared since; the next loop knows it
			}
			region.LeaseRemaining = durationpb.New(known.Regions[j].LeaseRemaining)
			if !b.budget.GetHot() || !known.Hot[i] {
				continue
			}
			k := known.Keys[i].Regions[j]
			region.Tokens = float64(k.Tokens) / leader.MicroToken
			region.Admitted, region.Offered = k.Admitted/leader.MicroToken, k.Offered/leader.MicroToken
			region.Generation = leader.GenerationText(k.Gen)
			region.State = stateOf(k)
		}
	}
}

func stateOf(k budget.KeyRegionStatus) string {
	switch {
	case k.Silent:
		return stateSilent
	case k.Lent:
		return stateLent
	}
	return stateLive
}

// addLeaderAnswer adds the status that the leader answered, by key and region. The shares stay those
// that this node has applied.
func addLeaderAnswer(all []budgetView, known []*aliquotv1.Budget) {
	type part struct{ rule, hash, region string }
	parts := map[part]*aliquotv1.RegionBudget{}
	budgets := map[part]*aliquotv1.Budget{}
	for _, b := range known {
		budgets[part{rule: b.GetRuleId(), hash: b.GetKeyHash()}] = b
		for _, r := range b.GetRegions() {
			parts[part{b.GetRuleId(), b.GetKeyHash(), r.GetRegion()}] = r
		}
	}
	for _, b := range all {
		if fromLeader := budgets[part{rule: b.budget.GetRuleId(), hash: b.budget.GetKeyHash()}]; fromLeader != nil {
			b.budget.ExcessObserved = fromLeader.GetExcessObserved()
			if fromLeader.GetPromise() != nil {
				b.budget.Promise = fromLeader.GetPromise()
			}
			b.budget.ResidualExcess, b.budget.ResidualExcessRate = fromLeader.GetResidualExcess(), fromLeader.GetResidualExcessRate()
		}
		for _, r := range b.budget.GetRegions() {
			k := parts[part{b.budget.GetRuleId(), b.budget.GetKeyHash(), r.GetRegion()}]
			if k == nil {
				continue
			}
			r.LeaseRemaining = k.GetLeaseRemaining()
			if b.budget.GetHot() && k.GetState() != stateCold {
				r.Tokens, r.Admitted, r.Offered = k.GetTokens(), k.GetAdmitted(), k.GetOffered()
				r.Generation, r.State = k.GetGeneration(), k.GetState()
			}
		}
	}
}
