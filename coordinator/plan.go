package coordinator

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"aliquot/coordinator/internal/leader"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Limits of a region's result of a plan, and of the answer.
const (
	maxPlanRules    = 1000
	maxPlanExamples = 10
	maxPlanError    = 1024
	// maxPlanCount is above the decisions of any region in ten minutes. Sums of such counts are far below
	// the largest int64.
	maxPlanCount = 1 << 40
)

// planner holds the plan that is under way while this node leads: what the regions are asked and what
// they have answered. There is one plan at a time, because each sends up to 4 MiB of rules to every
// region. The zero value is ready. It is safe for concurrent use.
type planner struct {
	mu      sync.Mutex
	current *plan
}

// plan is one question to the regions. The planner's mu guards the fields that change.
type plan struct {
	task *aliquotv1.PlanTask
	// waiting are the indices of the regions that have not answered.
	waiting map[int]bool
	// sent are the regions that were asked, each with its session then: if the leader's answer is lost,
	// the session ends too.
	sent    map[int]leader.SessionID
	results map[int]*aliquotv1.PlanResult
	// done is closed when every region has answered.
	done chan struct{}
}

// begin starts a plan for the live regions. The caller must call end.
func (b *planner) begin(yaml string, within time.Duration, regions []int) (*plan, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != nil {
		return nil, errPlanning
	}
	p := &plan{
		// A random id, so that an answer to another leader's plan does not match.
		task: &aliquotv1.PlanTask{Id: rand.Uint64() | 1, Yaml: yaml, WithinMicros: within.Microseconds()},
		sent: map[int]leader.SessionID{}, results: map[int]*aliquotv1.PlanResult{}, waiting: map[int]bool{}, done: make(chan struct{}),
	}
	for _, i := range regions {
		p.waiting[i] = true
	}
	if len(regions) == 0 {
		close(p.done)
	}
	b.current = p
	return p, nil
}

// end ends the plan and returns the results by region.
func (b *planner) end(p *plan) map[int]*aliquotv1.PlanResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == p {
		b.current = nil
	}
	return p.results
}

// taskFor returns the task to send with the answer to a region's report; nil if there is none, or it
// was sent in this session.
func (b *planner) taskFor(region int, in leader.SessionID) *aliquotv1.PlanTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil || !b.current.waiting[region] || b.current.sent[region] == in {
		return nil
	}
	b.current.sent[region] = in
	return b.current.task
}

// accept takes the result of a region. An invalid result counts as an answer, and the plan shows it as
// an error.
func (b *planner) accept(region int, result *aliquotv1.PlanResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.current
	if result == nil || p == nil || result.GetId() != p.task.GetId() || !p.waiting[region] {
		return
	}
	if err := checkPlan(result); err != nil {
		result = &aliquotv1.PlanResult{Replayed: &aliquotv1.RegionPlan{Error: "its answer cannot be right: " + err.Error()}}
	}
	p.results[region] = result
	delete(p.waiting, region)
	if len(p.waiting) == 0 {
		close(p.done)
	}
}

// checkPlan returns an error if no region can have found this result.
func checkPlan(r *aliquotv1.PlanResult) error {
	of := r.GetReplayed()
	switch {
	case len(r.GetRules()) > maxPlanRules:
		return fmt.Errorf("%d rules", len(r.GetRules()))
	case len(of.GetError()) > maxPlanError || !printable(of.GetError()):
		return fmt.Errorf("an error of %d bytes", len(of.GetError()))
	case of.GetSpan() != nil && (of.GetSpan().CheckValid() != nil || of.GetSpan().AsDuration() < 0):
		return fmt.Errorf("a span that is no time")
	}
	counts := []int64{of.GetRequests(), of.GetKeys(), of.GetOneIn(), r.GetNewlyDeniedRequests(), r.GetNewlyAllowedRequests()}
	for _, rule := range r.GetRules() {
		counts = append(counts, rule.GetNewlyDeniedKeys(), rule.GetNewlyAllowedKeys(), rule.GetNewlyDeniedRequests(), rule.GetNewlyAllowedRequests())
		if len(rule.GetRuleId()) > maxRuleID || !printable(rule.GetRuleId()) || len(rule.GetDeniedKeyHashes()) > maxPlanExamples {
			return fmt.Errorf("a rule that is none")
		}
		for _, hash := range rule.GetDeniedKeyHashes() {
			if raw, err := base64.RawURLEncoding.DecodeString(hash); err != nil || len(raw) != leasewire.HashBytes {
				return fmt.Errorf("a key hash that is none")
			}
		}
	}
	for _, n := range counts {
		if n < 0 || n > maxPlanCount {
			return fmt.Errorf("a count of %d", n)
		}
	}
	return nil
}

// printable reports whether a text can be shown on a terminal.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// maxRuleID bounds a rule's id in bytes, above what a rules file allows.
const maxRuleID = 1024

// planSum adds up the results of the regions in an answer.
type planSum struct {
	res   *aliquotv1.PlanRulesResponse
	rules map[string]*aliquotv1.RulePlan
}

func (s *planSum) add(r *aliquotv1.PlanResult) {
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
			if len(all.DeniedKeyHashes) < maxPlanExamples && !slices.Contains(all.DeniedKeyHashes, hash) {
				all.DeniedKeyHashes = append(all.DeniedKeyHashes, hash)
			}
		}
	}
}

// sort puts the rules with the most newly denied keys first and cuts the list.
func (s *planSum) sort() {
	slices.SortFunc(s.res.Rules, func(a, b *aliquotv1.RulePlan) int {
		return cmp.Or(cmp.Compare(b.GetNewlyDeniedKeys(), a.GetNewlyDeniedKeys()),
			cmp.Compare(b.GetNewlyDeniedRequests(), a.GetNewlyDeniedRequests()),
			cmp.Compare(b.GetNewlyAllowedKeys(), a.GetNewlyAllowedKeys()), cmp.Compare(a.GetRuleId(), b.GetRuleId()))
	})
	s.res.Rules = s.res.Rules[:min(len(s.res.Rules), maxPlanRules)]
}
