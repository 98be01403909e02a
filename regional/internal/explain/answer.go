package explain

import (
	"slices"
	"time"

	"aliquot/internal/checkwire"
	"aliquot/internal/httpanswer"
	"aliquot/internal/penalty"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/telemetry"
)

// Recorder answers decisions: it writes the answer, counts it, and remembers what a replay or an
// explanation needs. Safe for concurrent use.
type Recorder struct {
	region  string
	limiter *engine.Engine
	metrics *telemetry.Metrics
	recent  *sample.Sample
	holders *Holders
	ids     *decisionIDs
	denials denials
	names   denialNames
}

// NewRecorder returns a recorder of the decisions of limiter. It counts them in m, puts their requests
// into recent, and asks holders what other regions hold.
func NewRecorder(limiter *engine.Engine, m *telemetry.Metrics, recent *sample.Sample, holders *Holders) *Recorder {
	return &Recorder{
		region: m.Region, limiter: limiter, metrics: m, recent: recent, holders: holders, ids: newDecisionIDs(m.Region),
	}
}

// Answer writes a decision into out, gives it an id if it is a denial, and counts it. It also
// remembers the request for replays and the denial for Explain.
func (s *Recorder) Answer(d *charge.Decision, r *charge.Request, out *checkwire.Answer) {
	var counted telemetry.Batch
	s.AnswerAmong(d, r, out, &counted)
	counted.Flush(s.metrics)
}

// AnswerAmong does the work of Answer for one of several decisions that are counted together.
func (s *Recorder) AnswerAmong(d *charge.Decision, r *charge.Request, out *checkwire.Answer, counted *telemetry.Batch) {
	fill(d, s.metrics, counted, out)
	s.recent.See(d, r)
	s.limiter.Keys.Remember(d.Policy, r)
	if list := d.Mode == modes.BlockList || d.Mode == modes.AllowList; !list || !d.Policy.Set.ByEntry(r.Attributes.Get("api_key")) {
		counted.CountRequest(d.Policy.Counts, out.Allowed) // the decision of an entry says nothing about the rules file
	}
	if d.Policy.Known() && d.Policy.Set.UnknownTier(r.Attributes) {
		s.metrics.UnknownTier.Inc()
	}
	if out.Allowed {
		return
	}
	if d.Denier != nil {
		if out.DecisionID = d.Denier.RecentDenial(d.At); out.DecisionID != "" {
			return
		}
	}
	key, refused := refusedClient(d, r)
	now, wall := s.limiter.Read()
	if refused {
		if out.DecisionID = s.names.named(key, now); out.DecisionID != "" {
			return
		}
	}
	var number uint64
	number, out.DecisionID = s.ids.next()
	if d.Denier != nil {
		d.Denier.RememberDenial(out.DecisionID, d.At)
	}
	if refused {
		s.names.remember(key, out.DecisionID, now)
	}
	kept := *out
	kept.Limits = slices.Clone(out.Limits) // the slice in out is used again
	s.denials.add(number, explained{
		policy: d.Policy, request: *r, decision: s.limiter.Detach(d), answer: kept,
		unixMS: wall.UnixMilli(), lease: s.limiter.Auth.Lease(now),
	})
}

// Fill writes a decision into out, and does not count it.
func Fill(d *charge.Decision, out *checkwire.Answer) { fill(d, nil, nil, out) }

// fill writes a decision into out, and counts it unless counted is nil. When counted has no room
// left, its counts go to m.
func fill(d *charge.Decision, m *telemetry.Metrics, counted *telemetry.Batch, out *checkwire.Answer) {
	out.Reset()
	if d.Mode != "" {
		counted.CountDecision(m, "", outcome(d.Passes()), d.Mode)
		fillListAnswer(d, out)
		return
	}
	all, head := d.Verdicts()
	limitsAnswer(all, head, out)
	for i := range all {
		v := &all[i]
		what := outcome(v.Decision.Allowed)
		if v.Shadow && !v.Decision.Allowed {
			what = "shadow_denied"
		}
		row := counted.CountDecision(m, v.Rule.ID, what, v.Mode)
		if !v.Never() {
			row.AddCost(v.Cost, v.Decision.Allowed && (v.Shadow || out.Allowed))
		}
	}
}

// limitsAnswer writes the decisions of limits into out. head is the headline of all.
func limitsAnswer(all []charge.Verdict, head *charge.Verdict, out *checkwire.Answer) {
	out.Allowed = head.Shadow || head.Decision.Allowed
	out.RuleID, out.Mode, out.Reason = head.Rule.ID, head.Mode, charge.Why(all, head)
	out.Limit, out.Remaining, out.ResetAfter = head.Decision.Limit, head.Decision.Remaining, head.Decision.ResetAfter
	if !out.Allowed {
		out.Never, out.RetryAfter, out.Problem = head.Never(), retryAfter(head.Decision), problemOf(head)
	}
	for i := range all {
		v := &all[i]
		if out.Allowed && !v.Shadow {
			out.Delay = max(out.Delay, v.Decision.Delay)
		}
		out.Limits = append(out.Limits, limitAnswer(v))
	}
}

// problemOf returns the problem type of a denial; empty means httpanswer.QuotaExceeded.
func problemOf(v *charge.Verdict) string {
	switch {
	case v.Held != penalty.Free:
		return httpanswer.AbnormalUsage
	case v.Unknown:
		return httpanswer.ReducedCapacity
	}
	return ""
}

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func limitAnswer(v *charge.Verdict) checkwire.Limit {
	return checkwire.Limit{
		RuleID:     v.Rule.ID,
		Allowed:    v.Decision.Allowed,
		Limit:      v.Decision.Limit,
		Remaining:  v.Decision.Remaining,
		ResetAfter: v.Decision.ResetAfter,
		RetryAfter: retryAfter(v.Decision),
		Mode:       v.Mode,
		Never:      v.Never(),
		Window:     v.Window,
		Algorithm:  v.Rule.Algorithm,
		Delay:      v.Decision.Delay,
		Shadow:     v.Shadow,
		Unit:       v.Rule.Unit,
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

// fillListAnswer writes the answer when no limit was asked.
func fillListAnswer(d *charge.Decision, out *checkwire.Answer) {
	out.Allowed, out.Mode = d.Passes(), d.Mode
	switch {
	case d.Mode == modes.BlockList:
		out.Never, out.Problem = true, httpanswer.AbnormalUsage
		out.Reason = "the API key is on the block list"
	case d.Mode == modes.NoRulesYet && out.Allowed:
		out.Reason = "the rules are not known yet, and --without-rules allow lets every request pass until they are"
	case d.Mode == modes.NoRulesYet:
		out.RetryAfter, out.Problem = rulesRetry, httpanswer.ReducedCapacity
		out.Reason = "the rules are not known yet: neither a state file nor a coordinator has told this daemon; " +
			"its /readyz says why, --coordinators and --state-file say where they come from"
	}
}

// rulesRetry is the wait in answers while the rules are not known. A daemon that can reach a
// coordinator has them sooner.
const rulesRetry = time.Second

// DeniedByRules reports whether an answer is a denial that the client caused.
func DeniedByRules(a *checkwire.Answer) bool { return !a.Allowed && a.Mode != modes.NoRulesYet }
