package api

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"aliquot/budget"
	"aliquot/internal/checkwire"
	"aliquot/internal/envoyrls"
	"aliquot/internal/httpanswer"
	"aliquot/internal/stack"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/explain"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/overload"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// envoyService is Envoy's rate limit service. Each descriptor of a request is a check of its own,
// and the request is over its limit if one of the checks is. What the other checks consumed by then
// stays consumed, as in envoyproxy/ratelimit. Safe for concurrent use.
type envoyService struct {
	service *Service
	headers httpanswer.Headers
	metrics rlsMetrics
	log     *slog.Logger
	// override and refund: each feature that is ignored is logged once.
	override, refund sync.Once
	kept             sync.Pool // *envoyCall
}

// shouldRateLimit is the handler of the protocol's one method. Its answers to errors and panics are those of
// grpcErrors.
func (e *envoyService) shouldRateLimit(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (out any, err error) {
	stack.Grow()
	defer func() {
		if cause := recover(); cause != nil {
			out, err = nil, grpcError(e.service.panics.Caught(envoyrls.Procedure, cause))
		}
	}()
	c := e.call()
	defer c.leave()
	if err := receive(c); err != nil {
		return nil, err
	}
	if err := e.decide(ctx, c); err != nil {
		return nil, grpcError(rpcCodes.Error(err))
	}
	return c, nil
}

// decide decides the checks of a call.
func (e *envoyService) decide(ctx context.Context, c *envoyCall) error {
	e.service.calls.Add(1)
	defer e.service.calls.Add(-1)
	began := time.Now()
	checks, err := c.checks()
	if err == nil {
		err = e.answer(ctx, c, checks, &c.out)
	}
	e.service.metrics.DecisionSeconds.Observe(time.Since(began).Seconds())
	e.metrics.answered(err, c.out.Over())
	return err
}

// answer decides checks, and writes their statuses and the headers of the strictest answer. It
// decides them in their order: a look sees what was charged before it and nothing that comes after.
func (e *envoyService) answer(ctx context.Context, c *envoyCall, checks []envoyrls.Check, out *envoyrls.Response) error {
	limiter := e.service.limiter
	for i := range checks {
		checks[i].Attributes = spelled(checks[i].Attributes)
	}
	without := replacedBy(limiter.Policies, checks)
	for i := range checks {
		e.warn(&checks[i])
		c.requests = append(c.requests, requestOf(&checks[i], without))
	}
	room := limiter.Scratches.Take()
	defer limiter.Scratches.Done(room)
	turns, part, err := e.service.door.EnterCall(ctx, len(checks))
	switch {
	case err == nil:
		room.Turns, room.Part = turns, part
		defer func() { e.service.door.LeaveCall(room.Turns, room.Part) }()
	case err == overload.ErrCrowded && !slices.ContainsFunc(checks, func(c envoyrls.Check) bool { return c.Look }):
		room.Crowded = true // each rule's on_redis_failure is an answer to Envoy; an error may let all pass
	default:
		return err
	}
	var counted telemetry.Batch
	defer counted.Flush(e.service.metrics)
	for i := 0; i < len(checks); {
		n := 1
		for i+n < len(checks) && checks[i+n].Look == checks[i].Look {
			n++
		}
		var err error
		if checks[i].Look {
			err = e.answerPeeks(ctx, c, c.requests[i:i+n], room, out)
		} else {
			err = e.charges(ctx, c, c.requests[i:i+n], room, &counted, out)
		}
		if err != nil {
			return err
		}
		i += n
	}
	e.addHeaders(&c.strictest, out)
	return nil
}

// charges decides checks that cost something.
func (e *envoyService) charges(ctx context.Context, c *envoyCall, requests []charge.Request, room *charge.Scratch, counted *telemetry.Batch, out *envoyrls.Response) error {
	limiter := e.service.limiter
	decisions, err := limiter.DecideIn(ctx, requests, room)
	if err != nil {
		return err
	}
	from := len(out.Statuses)
	var costly []int
	for i := range requests {
		if err := decisions[i].Undecided(); err != nil {
			return err
		}
		e.service.answers.AnswerAmong(&decisions[i], &requests[i], &c.latest, counted)
		if c.latest.Never && c.latest.Mode == modes.Store && c.latest.Limit > 0 {
			costly = append(costly, i)
		}
		e.put(c, out)
	}
	return e.peekBelow(ctx, requests, decisions, costly, room, out.Statuses[from:])
}

// peekBelow fills in how much is left of a limit below the cost of a request, and when the limit
// is full again. It adds what was charged after such a request, because that was still left at the
// request's turn.
func (e *envoyService) peekBelow(
	ctx context.Context, requests []charge.Request, decisions []charge.Decision, costly []int, room *charge.Scratch, statuses []envoyrls.Status,
) error {
	if len(costly) == 0 || room.Crowded {
		return nil
	}
	looks := make([]charge.Request, len(costly))
	for j, i := range costly {
		looks[j] = requests[i]
		looks[j].Cost = limit.Token
	}
	seen, err := e.service.limiter.PeekBatch(ctx, looks, room)
	if err != nil {
		return err
	}
	for j, i := range costly {
		all, _ := seen[j].Decision.Verdicts()
		for k := range all {
			if v := &all[k]; v.Rule.ID == statuses[i].Name {
				left := max(0, v.Found.Tokens)
				for after := i + 1; after < len(decisions); after++ {
					left += chargedOf(&decisions[after], v.Key)
				}
				statuses[i].Remaining, statuses[i].Reset = int64(left/limit.Token), v.Decision.ResetAfter
			}
		}
	}
	return nil
}

// chargedOf returns how many tokens a decision took of a key.
func chargedOf(d *charge.Decision, key budget.KeyID) (cost limit.Tokens) {
	if d.Mode != "" {
		return 0
	}
	all, head := d.Verdicts()
	for i := range all {
		if v := &all[i]; v.Key == key && v.Decision.Allowed && (v.Shadow || head.Shadow || head.Decision.Allowed) {
			cost += v.Cost
		}
	}
	return cost
}

// answerPeeks decides checks that cost nothing.
func (e *envoyService) answerPeeks(ctx context.Context, c *envoyCall, requests []charge.Request, room *charge.Scratch, out *envoyrls.Response) error {
	for i := range requests {
		requests[i].Cost = limit.Token
	}
	seen, err := e.service.limiter.PeekBatch(ctx, requests, room)
	if err != nil {
		return err
	}
	for i := range seen {
		if err := e.answerPeek(&seen[i], &c.latest); err != nil {
			return err
		}
		e.put(c, out)
	}
	return nil
}

// put adds the latest answer to the response, and keeps it if it is the strictest.
func (e *envoyService) put(c *envoyCall, out *envoyrls.Response) {
	out.Statuses = append(out.Statuses, statusOf(&c.latest))
	if len(out.Statuses) == 1 || stricterAnswer(&c.latest, &c.strictest) {
		c.strictest, c.latest = c.latest, c.strictest
	}
}

// replacedBy returns the ids of the rules that apply to no descriptor of a request, because a rule
// that matches one of the descriptors replaces them.
func replacedBy(policies *policy.Policies, checks []envoyrls.Check) (without []string) {
	now := time.Now().UnixMilli()
	p := policies.At(now)
	if !p.Known() || len(checks) < 2 || !p.Set.ReplacesInRequest() {
		return nil
	}
	var matched []rules.Matched
	for i := range checks {
		_, matched = p.Set.Match(checks[i].Attributes, now, matched)
		for _, m := range matched {
			if m.Rule.Addresses(checks[i].Attributes) {
				without = append(without, m.Rule.ReplacesInRequest...)
			}
		}
	}
	return without
}

// addHeaders adds the headers of the strictest answer. An answer that passes has no headers unless
// they are asked for.
func (e *envoyService) addHeaders(of *checkwire.Answer, out *envoyrls.Response) {
	d := httpDecision(of)
	for _, f := range d.Fields(time.Now(), e.headers) {
		out.Headers = append(out.Headers, envoyrls.Header(f))
	}
}

func requestOf(c *envoyrls.Check, without []string) charge.Request {
	return charge.Request{Attributes: c.Attributes, Cost: limit.Tokens(c.Cost) * limit.Token, Described: charge.Described{
		Descriptor: true, Without: without, Own: charge.OwnLimit{Requests: c.Requests, Window: c.Window},
	}}
}

// warn counts what a descriptor asks for and is ignored, and logs each kind once.
func (e *envoyService) warn(c *envoyrls.Check) {
	if c.Override && !e.service.limiter.Policies.Load().TakesLimits() {
		e.metrics.ignored[ignoredLimit].Inc()
		e.override.Do(func() {
			e.log.Warn("a descriptor brings a limit of its own, and no rule has request_limit: allow: the rules decide it; see docs/reference/envoy.md")
		})
	}
	if c.Refund {
		e.metrics.ignored[ignoredRefund].Inc()
		e.refund.Do(func() {
			e.log.Warn("a descriptor gives hits back (is_negative_hits), which is not done in this version; see docs/reference/envoy.md")
		})
	}
}

// statusOf returns the status of an answer. It leaves out a shadow limit, and a limit that was
// decided without the store, since what is left of it is unknown.
func statusOf(of *checkwire.Answer) envoyrls.Status {
	out := envoyrls.Status{Over: !of.Allowed}
	switch of.Mode {
	case modes.AllowList, modes.Unlimited:
		out.Remaining = envoyrls.Unlimited
		return out
	case modes.Emergency, modes.FailOpen, modes.FailClosed:
		return out
	}
	for i := range of.Limits {
		if l := &of.Limits[i]; l.RuleID == of.RuleID && !l.Shadow {
			out.Name, out.Limit, out.Window = l.RuleID, of.Limit, l.Window
			out.Remaining, out.Reset = of.Remaining, of.ResetAfter
			break
		}
	}
	return out
}

// stricterAnswer orders the answers of one request for its headers, in the way in which a check's
// limits are ordered for its headline. Denials come first, those for ever before all others, then
// the longest wait. Then comes the answer with the least left.
func stricterAnswer(a, than *checkwire.Answer) bool {
	switch {
	case a.Allowed != than.Allowed:
		return !a.Allowed
	case a.Never != than.Never:
		return a.Never
	case !a.Allowed:
		return a.RetryAfter > than.RetryAfter
	case headed(a) != headed(than):
		return headed(a)
	}
	return a.Remaining*than.Limit < than.Remaining*a.Limit
}

// headed reports whether the answer's headline is a limit that can deny. Other limits have no
// headers.
func headed(a *checkwire.Answer) bool {
	for i := range a.Limits {
		if l := &a.Limits[i]; l.RuleID == a.RuleID {
			return !l.Shadow
		}
	}
	return false
}

// answerPeek answers a descriptor that costs nothing: over the limit if one more request would be denied.
// A denial is recorded like any other one. A request that passes leaves no trace.
func (e *envoyService) answerPeek(of *engine.PeekResult, out *checkwire.Answer) error {
	d := &of.Decision
	if err := d.Undecided(); err != nil {
		return err
	}
	if explain.Fill(d, out); !out.Allowed {
		e.service.answers.Answer(d, of.Request, out)
		return nil
	}
	if _, head := d.Verdicts(); head != nil && !of.Cached && out.Remaining >= 0 {
		found := limit.Decide(head.Limit, head.Found, 0, true) // the peek describes the state after a charge
		out.Remaining, out.ResetAfter = found.Remaining, found.ResetAfter
	}
	return nil
}
