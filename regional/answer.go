package regional

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// answer words a decision, names it if it is a denial, counts it, and remembers the
// request for replays and the denial for Explain.
func (s *service) answer(d *decision, r *request) *aliquotv1.CheckResponse {
	out := d.answer(s.metrics)
	s.recent.see(d, r)
	if d.policy != nil {
		d.policy.counts.add(out.Allowed)
	}
	if !out.Allowed {
		var number uint64
		number, out.DecisionId = s.ids.next()
		s.denials.add(number, explained{
			policy: d.policy, request: *r, decision: *d, answer: out,
			unixMS: time.Now().UnixMilli(), lease: s.limiter.auth.lease(),
		})
	}
	return out
}

// answer words a decision, and counts it, unless m is nil.
func (d *decision) answer(m *metrics) *aliquotv1.CheckResponse {
	if d.mode != "" {
		m.decided("", outcome(d.mode != modeBlockList), d.mode)
		return listAnswer(d.mode)
	}
	all, head := d.verdicts()
	out := limitsAnswer(all, head)
	for i := range all {
		v := &all[i]
		if v.shadow && !v.decision.Allowed {
			m.decided(v.rule.ID, "shadow_denied", v.mode)
		} else {
			m.decided(v.rule.ID, outcome(v.decision.Allowed), v.mode)
		}
		if !v.never() {
			m.charged(v.rule.ID, v.cost, v.decision.Allowed && (v.shadow || out.Allowed))
		}
	}
	return out
}

// limitsAnswer words what limits have decided; head is the headline of all.
func limitsAnswer(all []verdict, head *verdict) *aliquotv1.CheckResponse {
	out := &aliquotv1.CheckResponse{
		Allowed:    head.shadow || head.decision.Allowed,
		RuleId:     head.rule.ID,
		Limit:      head.decision.Limit,
		Remaining:  head.decision.Remaining,
		ResetAfter: durationpb.New(head.decision.ResetAfter),
		RetryAfter: durationpb.New(0),
		Mode:       head.mode,
		Delay:      durationpb.New(0),
		Reason:     why(all, head),
		Limits:     make([]*aliquotv1.LimitDecision, 0, len(all)),
	}
	if !out.Allowed {
		out.Never, out.RetryAfter = head.never(), retryAfter(head.decision)
	}
	for i := range all {
		v := &all[i]
		if out.Allowed && !v.shadow && v.decision.Delay > out.Delay.AsDuration() {
			out.Delay = durationpb.New(v.decision.Delay)
		}
		out.Limits = append(out.Limits, limitAnswer(v))
	}
	return out
}

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func limitAnswer(v *verdict) *aliquotv1.LimitDecision {
	return &aliquotv1.LimitDecision{
		RuleId:     v.rule.ID,
		Allowed:    v.decision.Allowed,
		Limit:      v.decision.Limit,
		Remaining:  v.decision.Remaining,
		ResetAfter: durationpb.New(v.decision.ResetAfter),
		RetryAfter: retryAfter(v.decision),
		Mode:       v.mode,
		Never:      v.never(),
		Window:     durationpb.New(v.window),
		Algorithm:  v.rule.Algorithm,
		Delay:      durationpb.New(v.decision.Delay),
		Shadow:     v.shadow,
		Unit:       v.rule.Unit,
	}
}

// retryAfter is zero for a denial that no waiting helps: "never" says so, and any
// time would be a lie.
func retryAfter(d limit.Decision) *durationpb.Duration {
	if d.RetryAfter == limit.Never {
		return durationpb.New(0)
	}
	return durationpb.New(max(d.RetryAfter, time.Duration(0)))
}

// listAnswer is the answer when no limit was asked.
func listAnswer(mode string) *aliquotv1.CheckResponse {
	out := &aliquotv1.CheckResponse{
		Allowed: true, Mode: mode,
		ResetAfter: durationpb.New(0), RetryAfter: durationpb.New(0),
	}
	switch mode {
	case modeBlockList:
		out.Allowed, out.Never = false, true
		out.Reason = "the API key is on the block list"
	case modeNoRulesYet:
		out.Reason = "this region has not received its first rules yet; everything passes until then"
	}
	return out
}
