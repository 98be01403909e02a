package coordinator

import (
	"slices"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// olderLimit is the limit of one rule and API key in a version of the rules that is not in force: an
// older version, or one that is or was staged.
type olderLimit struct {
	version uint64
	limit   budget.KeyLimit
	// regions are the indices of the regions in which it was staged; nil: all regions.
	regions []int
}

// olderLimits returns the limits of a rule and API key that regions may still follow at nowMS, in Unix
// milliseconds.
func olderLimits(s *clusterstate.State, rule *rules.Rule, apiKey string, nowMS int64) []olderLimit {
	if rule.Enforcement == rules.Independent {
		return nil // an independent rule has no common bound to break
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

// residual sets what regions that have not acknowledged the rules in force may admit above the limit.
// known is the status of the regions from the leader.
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

// enforceable returns the most that each region may be enforcing of a key: its liability, and its floor
// for the case that it is silent.
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
