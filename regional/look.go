package regional

import (
	"context"
	"time"

	"aliquot/internal/checkwire"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
)

// looked is the result of a request that was only looked at, which costs nothing.
type looked struct {
	request  *charge.Request
	decision charge.Decision
	// near: memory decided, and the decision describes the present state. Otherwise it describes
	// the state after one more request.
	near bool
}

// lookAll finds out whether each of the requests would pass with a cost of one, and charges
// nothing. It decides what memory can decide, and asks the store about all others at once. The
// result is valid until s, in which requests were decided before, is used again. Its error is
// charge.ErrGone.
func (l *limiter) lookAll(ctx context.Context, requests []charge.Request, s *charge.Scratch) ([]looked, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	p, out := l.policies.At(time.Now().UnixMilli()), make([]looked, len(requests))
	var far []int
	var asked []*charge.Request
	for i := range requests {
		one := &out[i]
		one.request = &requests[i]
		if one.near = lookNear(&one.decision, l, p, one.request, s); !one.near {
			one.decision = charge.Decision{}
			far, asked = append(far, i), append(asked, one.request)
		}
	}
	found := make([]charge.Decision, len(far))
	if err := l.peekAll(ctx, p, asked, found); err != nil {
		return nil, err
	}
	for j, i := range far {
		out[i].decision = found[j]
	}
	return out, nil
}

// lookNear decides a request from memory without charging it. It returns false if the store has to
// be asked, or if a rule may hold the client back for its conduct.
func lookNear(d *charge.Decision, l *limiter, p *policy.Policy, r *charge.Request, s *charge.Scratch) bool {
	now := l.auth.Now()
	s.Matched = d.Match(p, r, time.Now().UnixMilli(), s.Matched)
	var plan charge.LocalPlan
	if d.Mode != "" || len(s.Matched) > charge.MostLocal || !plan.Find(l.auth.Local, p, r, s) {
		return false
	}
	for i := range s.Matched {
		if s.Matched[i].Rule.Watched() {
			return false
		}
	}
	plan.Lock()
	defer plan.Unlock()
	allowed, known := plan.Look(s, now)
	if known {
		d.Word(&plan, s, allowed, now)
	}
	return known
}

// look answers a descriptor that costs nothing: over the limit if one more request would be denied.
// A denial is recorded like any other one. A request that passes leaves no trace.
func (e *envoyService) look(of *looked, out *checkwire.Answer) error {
	d := &of.decision
	if d.TooMany > 0 {
		return tooMany(d.TooMany)
	}
	if fillAnswer(d, nil, nil, out); !out.Allowed {
		e.service.answer(d, of.request, out)
		return nil
	}
	if !of.near && out.Remaining >= 0 {
		out.Remaining++ // the peek describes the state after a charge
	}
	return nil
}
