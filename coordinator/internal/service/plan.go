package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Time that a plan waits for the regions.
const (
	defaultPlanWait = 5 * time.Second
	maxPlanWait     = 30 * time.Second
	// planMargin is the part of the caller's deadline that is kept for the way of the answer.
	planMargin = 500 * time.Millisecond
)

// PlanRules asks every region what other rules would have decided about its recent requests.
func (s *ruleService) PlanRules(ctx context.Context, req *aliquotv1.PlanRulesRequest) (*aliquotv1.PlanRulesResponse, error) {
	wait, err := planWait(req)
	if err != nil {
		return nil, toRPC(err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+defaultDeadline)
	defer cancel()
	res, err := s.plan(ctx, req, wait)
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		res, err = toLeader(ctx, s.forward, req, (*peer).PlanRules)
	}
	return res, toRPC(err)
}

func planWait(req *aliquotv1.PlanRulesRequest) (time.Duration, error) {
	if len(req.GetFileName()) > maxFileNameBytes {
		return 0, invalid("file_name has %d bytes, at most %d", len(req.GetFileName()), maxFileNameBytes)
	}
	if req.GetWait() == nil {
		return defaultPlanWait, nil
	}
	wait := req.GetWait().AsDuration()
	if req.GetWait().CheckValid() != nil || wait <= 0 || wait > maxPlanWait {
		return 0, invalid("wait must be above 0 and at most %v; absent it is %v", maxPlanWait, defaultPlanWait)
	}
	return wait, nil
}

// plan is PlanRules on the leader.
func (s *ruleService) plan(ctx context.Context, req *aliquotv1.PlanRulesRequest, wait time.Duration) (*aliquotv1.PlanRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	res, err := s.planPreview(req)
	if err != nil {
		return nil, err
	}
	loop := s.leadership.Current()
	if loop == nil {
		return nil, errTakingCharge
	}
	names, live, err := loop.LiveRegions(ctx)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)-planMargin)
	}
	plan, err := s.plans.begin(req.GetYaml(), max(wait, 0), live)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-plan.done:
	case <-timeout.C:
	case <-ctx.Done():
	case <-loop.Done():
	}
	fillPlanAnswer(res, names, live, s.plans.end(plan), wait)
	return res, ctx.Err()
}

// planPreview returns the part of the answer that needs no region: diff and warnings.
func (s *ruleService) planPreview(req *aliquotv1.PlanRulesRequest) (*aliquotv1.PlanRulesResponse, error) {
	name := req.GetFileName()
	if name == "" {
		name = "rules"
	}
	s.parsing.Lock()
	set, warnings, err := rules.Parse(name, []byte(req.GetYaml()))
	s.parsing.Unlock()
	if err != nil {
		return nil, err
	}
	res := &aliquotv1.PlanRulesResponse{}
	before := ""
	s.node.View(func(state *clusterstate.State) { res.BaseVersion, before = state.Rules.Version, state.Rules.YAML })
	for _, w := range warnings {
		res.Warnings = append(res.Warnings, w.String())
	}
	res.Warnings = append(res.Warnings, s.restartedRules(set)...)
	res.Warnings = append(res.Warnings, s.hiddenChanges(set)...)
	res.Diff, err = unifiedDiff(versionName(res.BaseVersion), name, before, req.GetYaml())
	return res, err
}

// fillPlanAnswer adds the results of the regions to the answer, and the reason for each region without
// a result.
func fillPlanAnswer(res *aliquotv1.PlanRulesResponse, names []string, live []int, results map[int]*aliquotv1.PlanResult, wait time.Duration) {
	wasAsked := map[int]bool{}
	for _, i := range live {
		wasAsked[i] = true
	}
	sums := planSum{res: res, rules: map[string]*aliquotv1.RulePlan{}}
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
