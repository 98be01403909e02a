package leader

import (
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

func RulesByNumber(s *clusterstate.State, only *rules.Rule) map[uint32]*rules.Rule {
	out := map[uint32]*rules.Rule{}
	for id, number := range s.Rules.Numbers {
		if only == nil || only.ID == id {
			out[number] = s.Rules.Set.Rule(id)
		}
	}
	return out
}
