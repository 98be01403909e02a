package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

const (
	// maxUnmatched bounds the rules in an explanation that do not apply.
	maxUnmatched = 200
	// maxHeldKeys bounds the keys of one request that the coordinators are asked about.
	maxHeldKeys = 8
)

// ErrNoDecision is the error of Denial for an id of which no denial is remembered.
var ErrNoDecision = errors.New("no such denial is remembered here: a daemon keeps its latest 4,096 or fewer, " +
	"and forgets them when it restarts; the id begins with the region it was made in")

// Request explains how a request would be decided now. It charges nothing.
func (s *Recorder) Request(ctx context.Context, r *charge.Request) (*aliquotv1.ExplainResponse, error) {
	now, wall := s.limiter.Read()
	e := explained{policy: s.limiter.Policies.Load(), request: *r, unixMS: wall.UnixMilli(), lease: s.limiter.Auth.Lease(now)}
	var err error
	if e.decision, err = s.limiter.Peek(ctx, e.policy, r); err != nil {
		return nil, err
	}
	if err := e.decision.Undecided(); err != nil {
		return nil, err
	}
	Fill(&e.decision, &e.answer)
	return s.explain(ctx, &e), nil
}

// Denial explains how the denial with an id came about. Its error is ErrNoDecision.
func (s *Recorder) Denial(ctx context.Context, id string) (*aliquotv1.ExplainResponse, error) {
	e, known := s.find(id)
	if !known {
		return nil, ErrNoDecision
	}
	return s.explain(ctx, &e), nil
}

// Denied returns the request whose denial has an id, and false if no such denial is remembered.
func (s *Recorder) Denied(id string) (charge.Request, bool) {
	e, known := s.find(id)
	return e.request, known
}

// find returns the denial with an id, and false if it is not or no longer remembered.
func (s *Recorder) find(id string) (explained, bool) {
	number, own := s.ids.number(id)
	if !own {
		return explained{}, false
	}
	return s.denials.find(number)
}

// explain returns all that is known of a decision, with what the other regions hold.
func (s *Recorder) explain(ctx context.Context, e *explained) *aliquotv1.ExplainResponse {
	out := e.words()
	out.Region = s.region
	s.addHolders(ctx, &e.decision, out)
	return out
}

// words returns what one daemon knows of a decision, as a message.
func (e *explained) words() *aliquotv1.ExplainResponse {
	out := &aliquotv1.ExplainResponse{
		Decision: e.answer.Message(), UnixMs: e.unixMS, Lease: leaseWords(&e.lease),
	}
	if e.policy.Set == nil {
		return out
	}
	out.RulesVersion = e.policy.Text.Version
	found := e.policy.Set.Explain(e.request.Attributes, e.unixMS)
	out.Tier = found.Tier
	if found.Entry != nil {
		out.List, out.ListEntry = listName(&found), noteText(found.Entry.Pattern, &found.Entry.Note)
	}
	limits := e.limits()
	unmatched := 0
	for i := range found.Rules {
		one := e.rule(&found.Rules[i], &found, limits)
		if !one.GetMatched() {
			if unmatched++; unmatched > maxUnmatched {
				out.RulesOmitted++
				continue
			}
		}
		out.Rules = append(out.Rules, one)
	}
	return out
}

// explainedLimit is one limit of a decision. ask is nil if the limit was not asked because the cost
// is above its capacity.
type explainedLimit struct {
	ask     *charge.Charge
	verdict *charge.Verdict
}

func (e *explained) limits() map[*rules.Rule]explainedLimit {
	out := map[*rules.Rule]explainedLimit{}
	for i := range e.decision.Never {
		v := &e.decision.Never[i]
		out[v.Rule] = explainedLimit{verdict: v}
	}
	for _, g := range e.decision.Groups {
		for i := range g.Out {
			out[g.Charges[i].Rule] = explainedLimit{&g.Charges[i], &g.Out[i]}
		}
	}
	return out
}

// rule returns the explanation of one rule.
func (e *explained) rule(t *rules.Trace, of *rules.Explanation, limits map[*rules.Rule]explainedLimit) *aliquotv1.RuleExplanation {
	out := &aliquotv1.RuleExplanation{RuleId: t.Rule.ID, Matched: t.Matched, WhyNot: t.WhyNot(), Key: t.Rule.Key}
	if t.Matched {
		_, applies := e.request.CostOf(t.Rule)
		switch {
		case of.List != rules.None:
			out.Matched, out.WhyNot = false, "the "+listName(of)+" decides before any rule"
		case e.request.Descriptor && !t.Rule.Addresses(e.request.Attributes):
			out.Matched, out.WhyNot = false, "it has no conditions, and the descriptor does not carry its key"
		case slices.Contains(e.request.Without, t.Rule.ID):
			out.Matched, out.WhyNot = false, "a rule of another descriptor of the request replaces it"
		case !applies:
			out.Matched, out.WhyNot = false, fmt.Sprintf("the request says nothing of unit %s, which it counts", t.Rule.Unit)
		}
	}
	if !out.Matched {
		return out
	}
	hash := e.policy.Hasher.Key(e.request.Namespace, rules.KeyValues(t.Rule, e.request.Attributes, nil))
	out.KeyHash = charge.HashText(hash)
	switch {
	case t.Override != nil:
		out.Override = t.Override.Pattern
		if e := t.Override.Entry; e != nil {
			out.OverrideEntry = noteText(e.Name, &e.Note)
		}
	case t.Rule.SetForTier:
		out.SetForTier = t.Rule.Tier
	}
	l, asked := limits[t.Rule]
	if !asked {
		return out // the cost is above another rule's capacity, so no limit was asked
	}
	words := limitAnswer(l.verdict)
	out.Decision, out.RetryBasis = words.Message(), basisOf(l.verdict, l.ask)
	if l.ask != nil {
		explainCharge(l.ask, l.verdict, out)
	}
	return out
}

// explainCharge adds the region's right and the tokens that were there.
func explainCharge(a *charge.Charge, v *charge.Verdict, out *aliquotv1.RuleExplanation) {
	share := a.Right.Effective()
	out.Hot = a.Right.Hot && !a.Independent()
	out.RateShare, out.BurstShare = fraction(share.Rate), fraction(share.Burst)
	if out.Hot {
		out.Generation = fmt.Sprintf("%d.%d", a.Right.Gen.Epoch, a.Right.Gen.Counter)
	}
	out.Capacity, out.Tokens = tokens(v.Found.Bucket.Cap), tokens(max(0, v.Found.Tokens))
	out.Rate = perSecond(v.Found.Bucket.Rate)
}

func fraction(share int32) float64 { return float64(share) / float64(budget.Unit) }

// listName returns the list that decides: the file's, or the entries above the file.
func listName(e *rules.Explanation) string {
	blocks := e.List == rules.Blacklisted
	switch {
	case e.AboveFile && blocks:
		return "block entry"
	case e.AboveFile:
		return "allow entry"
	case blocks:
		return "blacklist"
	}
	return "whitelist"
}

// noteText returns a pattern with the note of its entry.
func noteText(pattern string, e *rules.Note) string {
	text := pattern
	if e.UntilMS != 0 {
		text += " until " + time.UnixMilli(e.UntilMS).UTC().Format(time.RFC3339)
	}
	if e.By != "" {
		text += ", by " + e.By
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// leaseWords returns a lease as a message.
func leaseWords(l *authority.Lease) *aliquotv1.LeaseExplanation {
	out := &aliquotv1.LeaseExplanation{
		Phase: "limbo", Remaining: durationpb.New(l.Remaining), Epoch: l.Epoch,
	}
	switch {
	case l.Phase == budget.Live:
		out.Phase = "live"
	case l.Phase == budget.CutOff:
		out.Phase = "floor"
	case l.Epoch == 0:
		out.Phase = "silent"
	}
	return out
}

// addHolders adds what the other regions hold of the hot keys.
func (s *Recorder) addHolders(ctx context.Context, d *charge.Decision, out *aliquotv1.ExplainResponse) {
	keys := map[string]budget.KeyID{}
	for _, g := range d.Groups {
		for i := range g.Charges {
			keys[g.Charges[i].Rule.ID] = g.Charges[i].Key
		}
	}
	var calls sync.WaitGroup
	asked := 0
	for _, r := range out.GetRules() {
		if !r.GetHot() {
			continue
		}
		if asked++; asked > maxHeldKeys {
			r.RegionsError = fmt.Sprintf("the coordinators are asked about %d keys of a request at most", maxHeldKeys)
			continue
		}
		calls.Go(func() {
			regions, err := s.holders.of(ctx, s.region, r.GetRuleId(), keys[r.GetRuleId()])
			if err != nil {
				r.RegionsError = err.Error()
			}
			r.Regions = regions
			if err == nil {
				r.Everywhere = r.GetTokens()
				for _, other := range regions {
					r.Everywhere += other.GetTokens()
				}
			}
		})
	}
	calls.Wait()
}
