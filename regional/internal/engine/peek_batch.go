package engine

import (
	"context"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
)

// PeekResult is the result of a peek, which costs nothing.
type PeekResult struct {
	Request  *charge.Request
	Decision charge.Decision
	// Cached: memory decided, and the decision describes the present state. Otherwise it describes
	// the state after one more request.
	Cached bool
}

// PeekBatch finds out whether each of the requests would pass, and charges nothing. Memory decides
// those that it can, and the store decides all others at once. The result is valid until s is used
// again. Its error is charge.ErrGone.
func (l *Engine) PeekBatch(ctx context.Context, requests []charge.Request, s *charge.Scratch) ([]PeekResult, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	p, out := l.Policies.At(time.Now().UnixMilli()), make([]PeekResult, len(requests))
	var indexes []int
	var forStore []*charge.Request
	for i := range requests {
		one := &out[i]
		one.Request = &requests[i]
		if one.Cached = peekCached(&one.Decision, l, p, one.Request, s); !one.Cached {
			one.Decision = charge.Decision{}
			indexes, forStore = append(indexes, i), append(forStore, one.Request)
		}
	}
	found := make([]charge.Decision, len(indexes))
	if err := l.peekAll(ctx, p, forStore, found, s); err != nil {
		return nil, err
	}
	for j, i := range indexes {
		out[i].Decision = found[j]
	}
	return out, nil
}

// peekCached decides a request from memory without charging it. It returns false if memory cannot
// decide it, or if a rule may hold the client back.
func peekCached(d *charge.Decision, l *Engine, p *policy.Policy, r *charge.Request, s *charge.Scratch) bool {
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
	known := readCached(&plan, s, now)
	if known {
		d.SetVerdicts(&plan, s, now)
	}
	return known
}

// readCached reads what memory knows of the limits of a request, if that is enough of each of them. It holds their locks.
func readCached(plan *charge.LocalPlan, s *charge.Scratch, now budget.Instant) (known bool) {
	plan.Lock()
	defer plan.Unlock()
	_, known = plan.Evaluate(s, now)
	if known {
		plan.Read(s, now)
	}
	return known
}
