package regional

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/abuse"
	"aliquot/internal/answer"
	"aliquot/internal/wire"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/telemetry"
)

// answer writes a decision into out, gives it an id if it is a denial, and counts it. It also
// remembers the request for replays and the denial for Explain.
func (s *service) answer(d *decision, r *request, out *wire.Answer) {
	var counted telemetry.Tally
	s.answerAmong(d, r, out, &counted)
	counted.Flush(s.metrics)
}

// answerAmong does the work of answer for one of several decisions that are counted together.
func (s *service) answerAmong(d *decision, r *request, out *wire.Answer, counted *telemetry.Tally) {
	d.answer(s.metrics, counted, out)
	s.recent.see(d, r)
	s.limiter.conduct.remember(d.policy, r)
	if list := d.mode == modes.BlockList || d.mode == modes.AllowList; !list || !d.policy.Set.ByEntry(r.attributes.Get("api_key")) {
		counted.Under(d.policy.Counts, out.Allowed) // the decision of an entry says nothing about the rules file
	}
	if d.policy.Known() && d.policy.Set.UnknownTier(r.attributes) {
		s.metrics.UnknownTier.Inc()
	}
	if out.Allowed {
		return
	}
	if d.denier != nil {
		if out.DecisionID = d.denier.named(d.at); out.DecisionID != "" {
			return
		}
	}
	key, shut := d.shut(r)
	var now budget.Instant
	if shut {
		now = s.limiter.auth.now()
		if out.DecisionID = s.names.named(key, now); out.DecisionID != "" {
			return
		}
	}
	var number uint64
	number, out.DecisionID = s.ids.next()
	if d.denier != nil {
		d.denier.rememberDenial(out.DecisionID, d.at)
	}
	if shut {
		s.names.remember(key, out.DecisionID, now)
	}
	kept := *out
	kept.Limits = slices.Clone(out.Limits) // the slice in out is used again
	s.denials.add(number, explained{
		policy: d.policy, request: *r, decision: d.remembered(s.limiter.auth), answer: kept,
		unixMS: time.Now().UnixMilli(), lease: s.limiter.auth.lease(),
	})
}

// answer writes a decision into out, and counts it unless counted is nil. When counted has no room
// left, its counts go to m.
func (d *decision) answer(m *telemetry.Metrics, counted *telemetry.Tally, out *wire.Answer) {
	out.Reset()
	if d.mode != "" {
		counted.Decided(m, "", outcome(d.passes()), d.mode)
		d.listAnswer(out)
		return
	}
	all, head := d.verdicts()
	limitsAnswer(all, head, out)
	for i := range all {
		v := &all[i]
		what := outcome(v.decision.Allowed)
		if v.shadow && !v.decision.Allowed {
			what = "shadow_denied"
		}
		row := counted.Decided(m, v.rule.ID, what, v.mode)
		if !v.never() {
			row.Charged(v.cost, v.decision.Allowed && (v.shadow || out.Allowed))
		}
	}
}

// limitsAnswer writes the decisions of limits into out. head is the headline of all.
func limitsAnswer(all []verdict, head *verdict, out *wire.Answer) {
	out.Allowed = head.shadow || head.decision.Allowed
	out.RuleID, out.Mode, out.Reason = head.rule.ID, head.mode, why(all, head)
	out.Limit, out.Remaining, out.ResetAfter = head.decision.Limit, head.decision.Remaining, head.decision.ResetAfter
	if !out.Allowed {
		out.Never, out.RetryAfter, out.Problem = head.never(), retryAfter(head.decision), head.problem()
	}
	for i := range all {
		v := &all[i]
		if out.Allowed && !v.shadow {
			out.Delay = max(out.Delay, v.decision.Delay)
		}
		out.Limits = append(out.Limits, limitAnswer(v))
	}
}

// problem returns the problem type of a denial; empty means answer.QuotaExceeded.
func (v *verdict) problem() string {
	switch {
	case v.held != abuse.Free:
		return answer.AbnormalUsage
	case v.unknown:
		return answer.ReducedCapacity
	}
	return ""
}

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func limitAnswer(v *verdict) wire.Limit {
	return wire.Limit{
		RuleID:     v.rule.ID,
		Allowed:    v.decision.Allowed,
		Limit:      v.decision.Limit,
		Remaining:  v.decision.Remaining,
		ResetAfter: v.decision.ResetAfter,
		RetryAfter: retryAfter(v.decision),
		Mode:       v.mode,
		Never:      v.never(),
		Window:     v.window,
		Algorithm:  v.rule.Algorithm,
		Delay:      v.decision.Delay,
		Shadow:     v.shadow,
		Unit:       v.rule.Unit,
	}
}

// retryAfter returns the wait of a denial, or 0 if no waiting helps. The field Never reports that
// case, in which any time would be a lie.
func retryAfter(d limit.Decision) time.Duration {
	if d.RetryAfter == limit.Never {
		return 0
	}
	return max(d.RetryAfter, 0)
}

// listAnswer writes the answer when no limit was asked.
func (d *decision) listAnswer(out *wire.Answer) {
	out.Allowed, out.Mode = d.passes(), d.mode
	switch {
	case d.mode == modes.BlockList:
		out.Never, out.Problem = true, answer.AbnormalUsage
		out.Reason = "the API key is on the block list"
	case d.mode == modes.NoRulesYet && out.Allowed:
		out.Reason = "the rules are not known yet, and --without-rules allow lets every request pass until they are"
	case d.mode == modes.NoRulesYet:
		out.RetryAfter, out.Problem = rulesRetry, answer.ReducedCapacity
		out.Reason = "the rules are not known yet: neither a state file nor a coordinator has told this daemon; " +
			"its /readyz says why, --coordinators and --state-file say where they come from"
	}
}

// rulesRetry is the wait in answers while the rules are not known. A daemon that can reach a
// coordinator has them sooner.
const rulesRetry = time.Second

// deniedByRules reports whether an answer is a denial that the client caused.
func deniedByRules(a *wire.Answer) bool { return !a.Allowed && a.Mode != modes.NoRulesYet }
