package engine

import (
	"context"
	"time"

	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
)

// Looked is the result of a request that was only looked at, which costs nothing.
type Looked struct {
	Request  *charge.Request
	Decision charge.Decision
	// Near: memory decided, and the decision describes the present state. Otherwise it describes
	// the state after one more request.
	Near bool
}

// LookAll finds out whether each of the requests would pass with a cost of one, and charges
// nothing. It decides what memory can decide, and asks the store about all others at once. The
// result is valid until s, in which requests were decided before, is used again. Its error is
// charge.ErrGone.
func (l *Engine) LookAll(ctx context.Context, requests []charge.Request, s *charge.Scratch) ([]Looked, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	p, out := l.Policies.At(time.Now().UnixMilli()), make([]Looked, len(requests))
	var far []int
	var asked []*charge.Request
	for i := range requests {
		one := &out[i]
		one.Request = &requests[i]
		if one.Near = lookNear(&one.Decision, l, p, one.Request, s); !one.Near {
			one.Decision = charge.Decision{}
			far, asked = append(far, i), append(asked, one.Request)
		}
	}
	found := make([]charge.Decision, len(far))
	if err := l.peekAll(ctx, p, asked, found); err != nil {
		return nil, err
	}
	for j, i := range far {
		out[i].Decision = found[j]
	}
	return out, nil
}

// lookNear decides a request from memory without charging it. It returns false if the store has to
// be asked, or if a rule may hold the client back for its conduct.
func lookNear(d *charge.Decision, l *Engine, p *policy.Policy, r *charge.Request, s *charge.Scratch) bool {
	now := l.Auth.Now()
	s.Matched = d.Match(p, r, time.Now().UnixMilli(), s.Matched)
	var plan charge.LocalPlan
	if d.Mode != "" || len(s.Matched) > charge.MaxCached || !plan.Find(l.Auth.Local, p, r, s) {
		return false
	}
	for i := range s.Matched {
		if s.Matched[i].Rule.Watched() {
			return false
		}
	}
	plan.Lock()
	defer plan.Unlock()
	allowed, known := plan.Evaluate(s, now)
	if known {
		d.SetVerdicts(&plan, s, allowed, now)
	}
	return known
}
