package sample

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/replay"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// maxPlanRules caps the rules in the result of one replay.
const maxPlanRules = 1000

// maxReplay caps the time of one replay, whatever the leader asks for.
const maxReplay = 30 * time.Second

// Planner replays recent requests under the rules that the leader asks about, one version at a
// time. A later task ends the one before, whose result is no longer needed. Safe for concurrent
// use.
type Planner struct {
	policies *policy.Policies
	auth     *authority.Authority
	recent   *Sample

	mu     sync.Mutex
	latest uint64                // the latest task that was taken; 0: none
	result *aliquotv1.PlanResult // the result to send; nil if there is none
}

// NewPlanner returns a planner that has no task yet.
func NewPlanner(policies *policy.Policies, auth *authority.Authority, sample *Sample) *Planner {
	return &Planner{policies: policies, auth: auth, recent: sample}
}

// Take records a task of the leader, and reports whether it is new; then the caller has to run it.
func (p *Planner) Take(task *aliquotv1.PlanTask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if task == nil || task.GetId() == p.latest {
		return false
	}
	p.latest, p.result = task.GetId(), nil
	return true
}

// Pending returns the result to send, or nil. The result stays until told is called.
func (p *Planner) Pending() *aliquotv1.PlanResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// Told drops a result that the leader has received.
func (p *Planner) Told(result *aliquotv1.PlanResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.result == result {
		p.result = nil
	}
}

// Run replays for a task that was taken. It yields its processor now and then, so that checks have
// precedence.
func (p *Planner) Run(ctx context.Context, task *aliquotv1.PlanTask) {
	within := min(max(time.Duration(task.GetWithinMicros())*time.Microsecond, 0), maxReplay)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	result := &aliquotv1.PlanResult{Id: task.GetId(), Replayed: &aliquotv1.RegionPlan{}}
	if err := p.replay(ctx, task, result); err != nil {
		result.Replayed.Error = err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == task.GetId() {
		p.result = result
	}
}

func (p *Planner) replay(ctx context.Context, task *aliquotv1.PlanTask, out *aliquotv1.PlanResult) error {
	now := p.policies.Load()
	if now.Set == nil || now.Hasher == nil {
		return errors.New("this region knows no rules yet")
	}
	set, _, err := rules.Parse(policy.RulesFile, []byte(task.GetYaml()))
	if err != nil {
		return errors.New("this region's version of the daemon cannot read the rules")
	}
	part := p.recent.Take()
	var span spanned
	r := replay.Run(replay.Config{
		Old: now.Set, New: set.With(now.Text.Entries), Hasher: now.Hasher, NowMS: time.Now().UnixMilli(),
		Right: func(k replay.Key, l limit.Limit) replay.Right { return p.right(now, k, l) },
		Stop:  func() bool { return p.stop(ctx, task.GetId()) },
	}, span.requests(&part))
	out.Replayed = &aliquotv1.RegionPlan{
		Requests: r.Requests, Keys: r.Keys, OneIn: int64(part.oneIn), Error: r.Cut,
		Span: durationpb.New(span.last.Sub(span.first)),
	}
	out.NewlyDeniedRequests, out.NewlyAllowedRequests = r.NewlyDenied, r.NewlyAllowed
	for _, rule := range r.Rules[:min(len(r.Rules), maxPlanRules)] {
		out.Rules = append(out.Rules, rulePlan(rule))
	}
	return nil
}

// stop reports whether a replay has to end: its time is up, or there is a later task.
func (p *Planner) stop(ctx context.Context, task uint64) bool {
	runtime.Gosched()
	p.mu.Lock()
	defer p.mu.Unlock()
	return ctx.Err() != nil || p.latest != task
}

func rulePlan(r replay.RuleResult) *aliquotv1.RulePlan {
	out := &aliquotv1.RulePlan{
		RuleId:          r.ID,
		NewlyDeniedKeys: r.DeniedKeys, NewlyAllowedKeys: r.AllowedKeys,
		NewlyDeniedRequests: r.DeniedRequests, NewlyAllowedRequests: r.AllowedRequests,
	}
	for _, hash := range r.Examples {
		out.DeniedKeyHashes = append(out.DeniedKeyHashes, charge.HashText(hash))
	}
	return out
}

// spanned records the times of the first and last request of a replay.
type spanned struct{ first, last budget.Instant }

// requests returns the requests of a part of the sample in the type of a replay.
func (s *spanned) requests(part *Part) iter.Seq[*replay.Request] {
	return func(yield func(*replay.Request) bool) {
		var out replay.Request
		part.Each(func(r *Request) bool {
			if s.first == 0 {
				s.first = r.At
			}
			s.last = r.At
			out = replay.Request{
				At: max(int64(r.At)/1000, 1), Namespace: r.Namespace, Attributes: r.Attributes,
				Cost: int64(r.Cost / limit.Token), Costs: r.Costs, Descriptor: r.Descriptor,
			}
			return yield(&out)
		})
	}
}

// right returns what the region may hold of a key now, under rules that may be new to it. A rule
// keeps its shares as long as it keeps its name. A new rule gets the shares of a rule that the
// client's requests already pass, because as much would be demanded of it.
func (p *Planner) right(now *policy.Policy, k replay.Key, l limit.Limit) replay.Right {
	if k.Rule.Enforcement == rules.Independent {
		return replay.Right{Bucket: entitlement.Bucket(l, budget.Share{Rate: budget.Unit, Burst: budget.Unit})}
	}
	number, known := now.Numbers[k.Rule.ID]
	if !known && k.Like != nil {
		number, known = now.Numbers[k.Like.ID]
	}
	if !known {
		number = policy.IndependentBit // a number that the budget protocol does not know
	}
	key := entitlement.KeyLimit(l)
	key.Placement = charge.PlacementOf(k.Rule)
	bucket, extra := p.auth.BucketInForce(budget.KeyID{Rule: number, Hash: k.Hash}, key, l, k.Rule.Enforcement == rules.Elastic)
	return replay.Right{Bucket: bucket, Extra: extra}
}
