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
	decided decided
	reply   chan reply // has room for the one answer
}

// reply is what the machine said to a Hello or a Report.
type reply struct {
	welcome   budget.HelloOK
	directive budget.Directive
	err       error
}

// hello hands a Hello to the machine and waits for its answer.
func (r *reign) hello(ctx context.Context, h budget.Hello) (budget.HelloOK, error) {
	w := waiter{region: h.Region, nonce: h.Nonce}
	got := r.await(ctx, w, func(context.Context) budget.LeaderEvent { return budget.HelloReceived{Hello: h} })
	return got.welcome, got.err
}

// report hands a Report to the machine and waits for its answer, which the machine
// may hold back for a moment.
func (r *reign) report(ctx context.Context, rep budget.Report, told decided) (budget.Directive, error) {
	w := waiter{region: rep.Region, report: rep, decided: told}
	got := r.await(ctx, w, func(loop context.Context) budget.LeaderEvent {
		r.pace.reported(rep, r.now())
		rep.Keys = r.wanted(loop, rep.Keys)
		return budget.ReportReceived{Report: rep}
	})
	return got.directive, got.err
}

// await posts the event, which is made on the loop, and waits for the answer to w.
func (r *reign) await(ctx context.Context, w waiter, event func(loop context.Context) budget.LeaderEvent) reply {
	w.reply = make(chan reply, 1)
	err := r.post(func(loop context.Context) {
		ev := event(loop)
		r.waiting = append(r.waiting, w)
		r.step(loop, ev)
	})
	if err != nil {
		return reply{err: err}
	}
	select {
	case got := <-w.reply:
		return got
	case <-ctx.Done():
		return reply{err: ctx.Err()}
	case <-r.over:
	}
	select {
	case got := <-w.reply: // it was answered before the end
		return got
	default:
		return reply{err: r.ended()}
	}
}

func (r *reign) welcome(ok budget.HelloOK) {
	r.pace.answered(ok.Region, ok.Session, 0, r.now())
	r.resolve(reply{welcome: ok}, func(w waiter) bool {
		return w.region == ok.Region && w.nonce == ok.Nonce
	})
}

func (r *reign) answer(d budget.Directive) {
	now := r.now() // before the answer goes out: the tally builds on that order
	w, found := r.resolve(reply{directive: d}, func(w waiter) bool {
		return w.region == d.Region && w.nonce == 0 && w.report.Session == d.Session && w.report.Seq == d.Seq
	})
	r.pace.answered(d.Region, d.Session, d.Seq, now)
	if found {
		r.pace.spaced(d.Region, w.report.Pace)
		r.rollout.regions[d.Region].hear(w.decided, now)
		r.tally.fold(w.report, now, r.hot)
		r.tellBreaches()
	}
}

func (r *reign) refuse(refusal budget.Refuse) {
	r.resolve(reply{err: refusal.Err}, func(w waiter) bool {
		return w.region == refusal.Region && w.nonce == refusal.Nonce && (w.nonce != 0 || w.report.Seq == refusal.Seq)
	})
}

// resolve answers the newest waiter that matches: of two messages with the same
// number the earlier was settled, or is refused next.
func (r *reign) resolve(answer reply, matches func(waiter) bool) (waiter, bool) {
	for i := len(r.waiting) - 1; i >= 0; i-- {
		if w := r.waiting[i]; matches(w) {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			w.reply <- answer
			return w, true
		}
	}
	return waiter{}, false
}
