package coordinator

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/cluster"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// tierChange reads a change of a tier.
func tierChange(req *aliquotv1.EditRulesRequest, m *aliquotv1.TierEdit) (cluster.TierChange, error) {
	c := cluster.TierChange{
		Value:  rules.TierValue{Tier: m.GetTier(), ParamsText: paramsOf(m)},
		Remove: m.GetRemove(), Expected: req.ExpectedVersion, Author: req.GetAuthor(), Comment: req.GetComment(),
	}
	stated := c.Value.ParamsText != (rules.ParamsText{})
	switch {
	case m.GetTier() == "" || !utf8.ValidString(m.GetTier()): // a URL can say anything
		return c, invalid("tier: say which, in UTF-8")
	case c.Remove && stated:
		return c, invalid("tier: one whose value is removed has no limit")
	case !c.Remove && !stated:
		return c, invalid("tier: state limit, capacity or refill_rate")
	}
	if c.Comment == "" {
		c.Comment = fmt.Sprintf("set the tier %q: %v", shorten(m.GetTier()), c.Value)
		if c.Remove {
			c.Comment = fmt.Sprintf("remove the value of the tier %q", shorten(m.GetTier()))
		}
	}
	return c, nil
}

// changeTier sets or removes the value of a tier, and tells what became of its rules.
func (s *ruleService) changeTier(ctx context.Context, c cluster.TierChange) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	select { // other edits wait: each is made on what the one before it has left
	case s.edits <- struct{}{}:
		defer func() { <-s.edits }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.node.Barrier(ctx); err != nil {
		return nil, err
	}
	before := s.ruleSet()
	version, err := s.node.ChangeTier(ctx, c)
	if err != nil {
		return nil, err
	}
	after := s.ruleSet()
	res := &aliquotv1.ApplyRulesResponse{Version: version}
	for _, r := range after.Rules() {
		if r.Tier == c.Value.Tier {
			res.TierRules = append(res.TierRules, tierRule(before.Rule(r.ID), r, c.Remove))
		}
	}
	if len(res.TierRules) == 0 && !c.Remove {
		res.Warnings = append(res.Warnings, fmt.Sprintf("no rule in force has the tier %q: its value is without effect", c.Value.Tier))
	}
	return res, nil
}

// ruleSet is the rules in force here; empty before the first.
func (s *ruleService) ruleSet() *rules.Set {
	set := new(rules.Set)
	s.node.View(func(state *cluster.State) {
		if state.Rules.Set != nil {
			set = state.Rules.Set
		}
	})
	return set
}

func tierRule(before, after *rules.Rule, removed bool) *aliquotv1.TierRule {
	out := &aliquotv1.TierRule{RuleId: after.ID, After: tierLimit(after)}
	if before != nil {
		out.Before = tierLimit(before)
	}
	if !removed && !after.SetForTier {
		out.WhyNot = fmt.Sprintf("it counts %s; the value of a tier is for rules that count %s", after.Unit, rules.UnitRequests)
	}
	return out
}

func tierLimit(r *rules.Rule) *aliquotv1.TierLimit {
	out := &aliquotv1.TierLimit{Limit: int64(r.Limit.Capacity / limit.Token), Window: durationpb.New(r.Window)}
	if !r.Limit.Algorithm.Counts() {
		out.RefillRate = perSecond(r.Limit.Rate)
	}
	return out
}

// tiersToWire are the values of tiers as regions and the API get them; set is under them.
func tiersToWire(tiers []cluster.TierEntry, set *rules.Set) []*aliquotv1.TierValue {
	out := make([]*aliquotv1.TierValue, len(tiers))
	for i, e := range tiers {
		out[i] = &aliquotv1.TierValue{
			Tier: e.Value.Tier, Capacity: e.Value.Capacity, Limit: e.Value.Limit, RefillRate: e.Value.RefillRate, WindowMicros: e.Value.Window.Microseconds(),
			Author: e.Author, Comment: e.Comment, UnixMs: e.UnixMS, Version: e.Version,
		}
		for _, r := range set.Rules() {
			if r.Tier == e.Value.Tier && r.SetForTier {
				out[i].RuleIds = append(out[i].RuleIds, r.ID)
			}
		}
	}
	return out
}

// hidden warns of each rule whose limit a file changes in vain, because the value of its
// tier stands above it.
func hidden(book *cluster.RuleBook, file *rules.Set) []string {
	var out []string
	values := make([]rules.TierValue, len(book.Tiers))
	for i, e := range book.Tiers {
		values[i] = e.Value
	}
	under, inForce := file.With(values), book.Set
	if inForce == nil {
		return nil
	}
	inFile := inForce.With(nil)
	for _, r := range under.Rules() {
		stated, before := file.Rule(r.ID), inFile.Rule(r.ID)
		if !r.SetForTier || before != nil && before.Limit == stated.Limit {
			continue
		}
		at := slices.IndexFunc(book.Tiers, func(e cluster.TierEntry) bool { return e.Value.Tier == r.Tier })
		out = append(out, fmt.Sprintf("rule %s keeps the value that was set for the tier %q (%v), above what the file states; `aliquot entries remove tier %s` ends that", r.ID, r.Tier, book.Tiers[at].Value, r.Tier))
	}
	return out
}
