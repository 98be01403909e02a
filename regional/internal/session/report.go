package session

import (
	"context"
	"time"

	"aliquot/budget"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// report sends a report, and returns the event for the state machine.
func (s *Session) report(ctx context.Context, rep budget.Report) budget.RegionEvent {
	rep.Standing = s.others.inSession(s.store.Silent())
	rep.Contents = s.auth.Contents()
	in := leasewire.ReportRequest(s.region, rep)
	if p := s.policies.Load(); p.Counts != nil {
		in.DecidedRulesVersion, in.Allowed, in.Denied = p.Text.Version, p.Counts.Allowed.Load(), p.Counts.Denied.Load()
	}
	in.Plan, in.Spent = s.planner.Pending(), leasewire.SpentTo(s.auth.ReportUnreported(rep.Keys))
	sent := s.auth.Now()
	out, err := s.peers.report(ctx, in)
	if err != nil {
		return budget.CallFailed{}
	}
	s.compare(out.GetEpoch(), out.GetLeaderClockMicros(), sent)
	s.auth.ObserveRoundTrip(s.auth.Now().Sub(sent), !out.GetRenew() && len(out.GetActions()) == 0)
	s.planner.Told(in.Plan)
	if task := out.GetPlan(); s.planner.Take(task) {
		s.background("a plan", func() { s.planner.Run(ctx, task) })
	}
	s.takeRules(out.GetRules())
	d, err := leasewire.DirectiveFrom(rep.Region, out)
	if err != nil {
		s.log.Error("a directive was refused", "error", err)
		return budget.CallFailed{}
	}
	s.emergency.InSession(sent)
	s.others.recordReport(d.Epoch, d.Others)
	return budget.DirectiveReceived{Directive: d}
}

// takeRules puts the rules of an answer in force. The state machine learns of them before it gets the answer.
func (s *Session) takeRules(in *aliquotv1.Rules) {
	if in != nil {
		// policies logs and counts a refusal. The session goes on.
		text := policy.RuleText{Version: in.GetVersion(), YAML: in.GetYaml(), Numbers: in.GetNumbers(), Entries: rules.EntriesOf(in.GetEntries())}
		before := s.policies.Load()
		if s.policies.SetRules(text) == nil && before.Open && !before.Known() {
			s.countEarly()
		}
	}
	s.tellRules()
}

// tellRules tells the state machine of rules that it does not know. The end of an override is such a change.
// One call at a time, or one that was slow would tell of rules that have been replaced since.
func (s *Session) tellRules() {
	s.telling.Lock()
	defer s.telling.Unlock()
	now, known := s.policies.At(time.Now().UnixMilli()), s.auth.Rules()
	if now.State() == known {
		return
	}
	ev := budget.RulesReplaced{Rules: now.State()}
	if before := s.toldRules; before != nil && before.State() == known {
		ev.Same = now.SameLimits(before)
	}
	s.toldRules = now
	s.auth.Post(ev)
}

// countEarly counts what passed before the first rules were known, by those rules. Only a daemon that
// runs with --without-rules allow has let anything pass.
func (s *Session) countEarly() {
	p := s.policies.Load()
	s.recent.TakeEarly(func(r *charge.Request, times int64, first budget.Instant) {
		var d charge.Decision
		d.Plan(p, r, time.Now().UnixMilli(), nil)
		for _, g := range d.Groups {
			for i := range g.Charges {
				if a := &g.Charges[i]; !g.Shadow {
					s.auth.AdmitEarly(a.Key, a.KeyLimit(), int64(a.Cost), times, first)
				}
			}
		}
	})
}
