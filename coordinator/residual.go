package coordinator

import (
	"slices"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// olderLimit is the limit of one rule and API key by another version of the rules than
// the one in force: an older one, or one that is or was staged.
type olderLimit struct {
	version uint64
	limit   budget.KeyLimit
	// regions are the indices of those it was staged in; nil: all.
	regions []int
}

// olderLimits are those of a rule and API key that regions may still go by at nowMS,
// Unix milliseconds.
func olderLimits(s *clusterstate.State, rule *rules.Rule, apiKey string, nowMS int64) []olderLimit {
	if rule.Enforcement == rules.Independent {
		return nil // it has no bound that a region could break
	}
	var out []olderLimit
	for _, o := range s.Rules.Others() {
		if before := o.Set.Rule(rule.ID); before != nil {
			l, _ := before.LimitFor(apiKey, nowMS)
			other := olderLimit{version: o.Version, limit: leader.KeyLimit(before, l)}
			for _, name := range o.Regions {
				other.regions = append(other.regions, s.Ledger.Config.Index(name))
			}
			out = append(out, other)
		}
	}
	return out
}

// residual fills in what regions that have not acknowledged the rules in force could
// admit above the limit: known is what the leader's machine says of them.
func residual(b *aliquotv1.Budget, now budget.KeyLimit, older []olderLimit, shares []budget.Share, known []budget.RegionStatus) {
	var out []budget.Outdated
	for i, share := range shares {
		o := budget.Outdated{Share: share}
		for _, l := range older {
			if i < len(known) && l.version >= known[i].RulesVersion && (l.regions == nil || slices.Contains(l.regions, i)) {
				o.Limit.Capacity = max(o.Limit.Capacity, l.limit.Capacity)
				o.Limit.Rate = max(o.Limit.Rate, l.limit.Rate)
			}
		}
		out = append(out, o)
	}
	burst, rate := budget.ResidualExcess(now, out)
	b.ResidualExcess, b.ResidualExcessRate = float64(burst)/leader.MicroToken, float64(rate)/leader.MicroToken
}

// enforceable bounds what each region could be enforcing of a key: its liability, and
// its floor if it is not heard.
func enforceable(s *clusterstate.State, key budget.KeyID) []budget.Share {
	liability := s.Ledger.Shares(key)
	out := make([]budget.Share, len(s.Ledger.Config.Regions))
	for i := range out {
		out[i] = s.Ledger.Config.Regions[i].Floor
		if liability != nil {
			out[i] = out[i].Max(liability[i])
		}
	}
	return out
}
