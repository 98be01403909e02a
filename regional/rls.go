package regional

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aliquot/answer"
	"aliquot/limit"
	"aliquot/rls"
	"aliquot/wire"
)

// envoyService is Envoy's rate limit service: each descriptor of a request is a check of
// its own, and the request is over its limit if one of them is. What the others consumed
// by then stays consumed, as in envoyproxy/ratelimit. Safe for concurrent use.
type envoyService struct {
	service *service
	headers answer.Headers
	metrics rlsMetrics
	log     *slog.Logger
	// told: what is not heeded is logged once each.
	override, refund sync.Once
	kept             sync.Pool // *envoyCall
}

func newEnvoyService(s *service, c *Config, log *slog.Logger) (*envoyService, error) {
	headers, err := answer.ParseHeaders(c.RLSHeaders)
	if err != nil {
		return nil, err
	}
	return &envoyService{service: s, headers: headers, metrics: newRLSMetrics(c.Region, c.Registry), log: log}, nil
}

// ShouldRateLimit decides the checks of a request. Its errors are Connect's, which the
// interceptor translates.
func (e *envoyService) ShouldRateLimit(ctx context.Context, in *rls.Request, out *rls.Response) error {
	began := time.Now()
	err := e.decide(ctx, in, out)
	e.service.metrics.decisionSeconds.Observe(time.Since(began).Seconds())
	e.metrics.answered(err, out.Over())
	return err
}

func (e *envoyService) decide(ctx context.Context, in *rls.Request, out *rls.Response) error {
	checks, err := in.Checks()
	if err != nil {
		return rpcCodes.Error(err)
	}
	kept, _ := e.kept.Get().(*envoyCall)
	if kept == nil {
		kept = new(envoyCall)
	}
	if err := e.answer(ctx, kept, checks, out); err != nil {
		return rpcCodes.Error(err)
	}
	kept.done(&e.kept)
	return nil
}

// envoyCall is what a call needs, kept for the next one.
type envoyCall struct {
	requests  []request
	latest    wire.Answer
	strictest wire.Answer // of those so far
}

// maxKeptRequests bounds what one call keeps.
const maxKeptRequests = 64

// done forgets the requests, which point into the message, and keeps the rest. A call
// that ended in an error is not used again: who was asked may hold on to it.
func (c *envoyCall) done(kept *sync.Pool) {
	if cap(c.requests) > maxKeptRequests {
		return
	}
	clear(c.requests)
	c.requests = c.requests[:0]
	kept.Put(c)
}

// answer decides checks into statuses and the headers of the strictest.
func (e *envoyService) answer(ctx context.Context, c *envoyCall, checks []rls.Check, out *rls.Response) error {
	var looks []request
	for i := range checks {
		if checks[i].Look {
			one := requestOf(&checks[i])
			one.cost = limit.Token
			looks = append(looks, one)
		} else {
			c.requests = append(c.requests, requestOf(&checks[i]))
		}
	}
	limiter := e.service.limiter
	room := limiter.scratches.take()
	defer limiter.scratches.done(room)
	decisions, err := limiter.decideIn(ctx, c.requests, room)
	if err != nil {
		return err
	}
	seen, err := limiter.lookAll(ctx, looks, room)
	if err != nil {
		return err
	}
	var counted tally
	defer counted.flush(e.service.metrics)
	charged := 0
	for i := range checks {
		e.warn(&checks[i])
		if checks[i].Look {
			err = e.look(&seen[i-charged], &c.latest)
		} else {
			err = e.worded(&decisions[charged], &c.requests[charged], &c.latest, &counted)
			charged++
		}
		if err != nil {
			return err
		}
		out.Statuses = append(out.Statuses, statusOf(&c.latest))
		if i == 0 || stricterAnswer(&c.latest, &c.strictest) {
			c.latest, c.strictest = c.strictest, c.latest
		}
	}
	e.addHeaders(&c.strictest, out)
	return nil
}

// addHeaders words the strictest answer. One that passes has no headers, unless they are
// asked for.
func (e *envoyService) addHeaders(of *wire.Answer, out *rls.Response) {
	d := httpDecision(of)
	for _, f := range d.Fields(time.Now(), e.headers) {
		out.Headers = append(out.Headers, rls.Header(f))
	}
}

func requestOf(c *rls.Check) request {
	return request{attributes: c.Attributes, cost: limit.Tokens(c.Cost) * limit.Token}
}

// worded is the answer of a decision.
func (e *envoyService) worded(d *decision, r *request, out *wire.Answer, counted *tally) error {
	if d.tooMany > 0 {
		return tooMany(d.tooMany)
	}
	e.service.answerAmong(d, r, out, counted)
	return nil
}

// warn tells once of what a descriptor asks for in vain.
func (e *envoyService) warn(c *rls.Check) {
	if c.Override {
		e.metrics.ignored[ignoredLimit].Inc()
		e.override.Do(func() {
			e.log.Warn("a descriptor brings a limit of its own, which is not heeded in this version: the rules decide it; see docs/envoy.md")
		})
	}
	if c.Refund {
		e.metrics.ignored[ignoredRefund].Inc()
		e.refund.Do(func() {
			e.log.Warn("a descriptor gives hits back (is_negative_hits), which is not done in this version; see docs/envoy.md")
		})
	}
}

// statusOf words a decision. A limit that only watches is not told of, nor one that was
// decided without the store, of which it is not known what is left.
func statusOf(of *wire.Answer) rls.Status {
	out := rls.Status{Over: !of.Allowed}
	switch of.Mode {
	case modeAllowList:
		out.Remaining = rls.Unlimited
		return out
	case modeEmergency, modeFailOpen, modeFailClosed:
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

// stricterAnswer orders the answers of one request for its headers, as a check's limits
// are ordered for its headline: denials first, those for ever before all, then the
// longest wait; then what has the least left.
func stricterAnswer(a, than *wire.Answer) bool {
	switch {
	case a.Allowed != than.Allowed:
		return !a.Allowed
	case a.Never != than.Never:
		return a.Never
	case !a.Allowed:
		return a.RetryAfter > than.RetryAfter
	case (a.RuleID == "") != (than.RuleID == ""):
		return a.RuleID != ""
	}
	return a.Remaining*than.Limit < than.Remaining*a.Limit
}
