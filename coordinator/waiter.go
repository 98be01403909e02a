package coordinator

import (
	"context"

	"aliquot/budget"
)

// waiter is a Hello or a Report that the machine has not answered yet. The machine
// answers each exactly once, maybe at a later step.
type waiter struct {
	region int
	nonce  uint64 // of a Hello; 0 for a Report
	report budget.Report
	// decided is what the report tells beside what the machine reads.
	decisions decisionCounts
	reply     chan reply // has room for the one answer
}

// reply is what the machine said to a Hello or a Report.
type reply struct {
	welcome   budget.HelloOK
	directive budget.Directive
	err       error
}

// hello hands a Hello to the machine and waits for its answer.
func (l *leaderLoop) hello(ctx context.Context, h budget.Hello) (budget.HelloOK, error) {
	w := waiter{region: h.Region, nonce: h.Nonce}
	got := l.await(ctx, w, func(context.Context) budget.LeaderEvent { return budget.HelloReceived{Hello: h} })
	return got.welcome, got.err
}

// report hands a Report to the machine and waits for its answer, which the machine
// may hold back for a moment.
func (l *leaderLoop) report(ctx context.Context, rep budget.Report, counts decisionCounts) (budget.Directive, error) {
	w := waiter{region: rep.Region, report: rep, decisions: counts}
	got := l.await(ctx, w, func(loopCtx context.Context) budget.LeaderEvent {
		l.latencies.reportReceived(rep, l.now())
		rep.Keys = l.dropUnknownRules(loopCtx, rep.Keys)
		return budget.ReportReceived{Report: rep}
	})
	return got.directive, got.err
}

// await posts the event, which is made on the loop, and waits for the answer to w.
func (l *leaderLoop) await(ctx context.Context, w waiter, event func(loopCtx context.Context) budget.LeaderEvent) reply {
	w.reply = make(chan reply, 1)
	err := l.post(func(loopCtx context.Context) {
		ev := event(loopCtx)
		l.waiting = append(l.waiting, w)
		l.step(loopCtx, ev)
	})
	if err != nil {
		return reply{err: err}
	}
	select {
	case got := <-w.reply:
		return got
	case <-ctx.Done():
		return reply{err: ctx.Err()}
	case <-l.done:
	}
	select {
	case got := <-w.reply: // it was answered before the end
		return got
	default:
		return reply{err: l.endError()}
	}
}

func (l *leaderLoop) welcome(ok budget.HelloOK) {
	l.latencies.answerSent(ok.Region, ok.Session, 0, l.now())
	l.resolve(reply{welcome: ok}, func(w waiter) bool {
		return w.region == ok.Region && w.nonce == ok.Nonce
	})
}

func (l *leaderLoop) answer(d budget.Directive) {
	now := l.now() // before the answer goes out: the tally builds on that order
	w, found := l.resolve(reply{directive: d}, func(w waiter) bool {
		return w.region == d.Region && w.nonce == 0 && w.report.Session == d.Session && w.report.Seq == d.Seq
	})
	l.latencies.answerSent(d.Region, d.Session, d.Seq, now)
	if found {
		l.latencies.setReportInterval(d.Region, w.report.Pace)
		l.rollout.regions[d.Region].add(w.decisions, now)
		l.audit.AddReport(w.report, now, l.isHot)
		l.logBreaches()
	}
}

func (l *leaderLoop) refuse(refusal budget.Refuse) {
	l.resolve(reply{err: refusal.Err}, func(w waiter) bool {
		return w.region == refusal.Region && w.nonce == refusal.Nonce && (w.nonce != 0 || w.report.Seq == refusal.Seq)
	})
}

// resolve answers the newest waiter that matches: of two messages with the same
// number the earlier was settled, or is refused next.
func (l *leaderLoop) resolve(answer reply, matches func(waiter) bool) (waiter, bool) {
	for i := len(l.waiting) - 1; i >= 0; i-- {
		if w := l.waiting[i]; matches(w) {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			w.reply <- answer
			return w, true
		}
	}
	return waiter{}, false
}
