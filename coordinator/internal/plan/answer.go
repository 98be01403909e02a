package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// FillAnswer adds the results of the regions to the answer, and the reason for each region without
// a result.
func FillAnswer(res *aliquotv1.PlanRulesResponse, names []string, live []int, results map[int]*aliquotv1.PlanResult, wait time.Duration) {
	wasAsked := map[int]bool{}
	for _, i := range live {
		wasAsked[i] = true
	}
	sums := sum{res: res, rules: map[string]*aliquotv1.RulePlan{}}
	for i, name := range names {
		if name == "" {
			continue
		}
		of := &aliquotv1.RegionPlan{}
		switch result := results[i]; {
		case result != nil:
			sums.add(result)
			if result.GetReplayed() != nil {
				of = result.GetReplayed()
			}
		case wasAsked[i]:
			of.Error = fmt.Sprintf("no answer within %v; it may be an older version, or busy", wait.Round(time.Millisecond))
		default:
			of.Error = "the region is not heard"
		}
		of.Region = name
		res.Regions = append(res.Regions, of)
	}
	sums.sort()
}

// sum adds up the results of the regions in an answer.
type sum struct {
	res   *aliquotv1.PlanRulesResponse
	rules map[string]*aliquotv1.RulePlan
}

func (s *sum) add(r *aliquotv1.PlanResult) {
	s.res.NewlyDeniedRequests += r.GetNewlyDeniedRequests()
	s.res.NewlyAllowedRequests += r.GetNewlyAllowedRequests()
	for _, one := range r.GetRules() {
		all := s.rules[one.GetRuleId()]
		if all == nil {
			all = &aliquotv1.RulePlan{RuleId: one.GetRuleId()}
			s.rules[one.GetRuleId()] = all
			s.res.Rules = append(s.res.Rules, all)
		}
		all.NewlyDeniedKeys += one.GetNewlyDeniedKeys()
		all.NewlyAllowedKeys += one.GetNewlyAllowedKeys()
		all.NewlyDeniedRequests += one.GetNewlyDeniedRequests()
		all.NewlyAllowedRequests += one.GetNewlyAllowedRequests()
		s.res.NewlyDeniedKeys += one.GetNewlyDeniedKeys()
		s.res.NewlyAllowedKeys += one.GetNewlyAllowedKeys()
		for _, hash := range one.GetDeniedKeyHashes() {
			if len(all.DeniedKeyHashes) < maxExamples && !slices.Contains(all.DeniedKeyHashes, hash) {
				all.DeniedKeyHashes = append(all.DeniedKeyHashes, hash)
			}
		}
	}
}

// sort puts the rules with the most newly denied keys first and cuts the list.
func (s *sum) sort() {
	slices.SortFunc(s.res.Rules, func(a, b *aliquotv1.RulePlan) int {
		return cmp.Or(cmp.Compare(b.GetNewlyDeniedKeys(), a.GetNewlyDeniedKeys()),
			cmp.Compare(b.GetNewlyDeniedRequests(), a.GetNewlyDeniedRequests()),
			cmp.Compare(b.GetNewlyAllowedKeys(), a.GetNewlyAllowedKeys()), cmp.Compare(a.GetRuleId(), b.GetRuleId()))
	})
	s.res.Rules = s.res.Rules[:min(len(s.res.Rules), maxRules)]
}
