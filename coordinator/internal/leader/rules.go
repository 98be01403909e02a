package leader

import (
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

// RulesByNumber returns the rules in force by number; only one rule if only is not nil. A rule that the
// set no longer has is nil.
func RulesByNumber(s *clusterstate.State, only *rules.Rule) map[uint32]*rules.Rule {
	out := map[uint32]*rules.Rule{}
	for id, number := range s.Rules.Numbers {
		if only == nil || only.ID == id {
			out[number] = s.Rules.Set.Rule(id)
		}
	}
	return out
}
