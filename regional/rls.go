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
	requests := make([]request, 0, len(checks))
	for i := range checks {
		if !checks[i].Look {
			requests = append(requests, requestOf(&checks[i]))
		}
	}
	decisions, err := e.service.limiter.decide(ctx, requests)
	if err != nil {
		return rpcCodes.Error(err)
	}
	var strictest *wire.Answer
	for i := range checks {
		e.warn(&checks[i])
		var of *wire.Answer
		if checks[i].Look {
			of, err = e.look(ctx, &checks[i])
		} else {
			of, err = e.answer(&decisions[0], &requests[0])
			decisions, requests = decisions[1:], requests[1:]
		}
		if err != nil {
			return rpcCodes.Error(err)
		}
		out.Statuses = append(out.Statuses, statusOf(of))
		if strictest == nil || stricterAnswer(of, strictest) {
			strictest = of
		}
	}
	for _, f := range answer.Fields(strictest.Message(), time.Now(), e.headers) {
		out.Headers = append(out.Headers, rls.Header{Name: f.Name, Value: f.Value})
	}
	return nil
}

func requestOf(c *rls.Check) request {
	return request{attributes: c.Attributes, cost: limit.Tokens(c.Cost) * limit.Token}
}

func (e *envoyService) answer(d *decision, r *request) (*wire.Answer, error) {
	if d.tooMany > 0 {
		return nil, tooMany(d.tooMany)
	}
	out := new(wire.Answer)
	e.service.answer(d, r, out)
	return out, nil
}

// look answers a descriptor that costs nothing: over if the limit would not hold one
// more. A denial is one like any other; what passes leaves no trace.
func (e *envoyService) look(ctx context.Context, c *rls.Check) (*wire.Answer, error) {
	r := requestOf(c)
	r.cost = limit.Token
	d, err := e.service.limiter.peek(ctx, e.service.limiter.policies.load(), &r)
	if err != nil {
		return nil, err
	}
	if d.tooMany > 0 {
		return nil, tooMany(d.tooMany)
	}
	out := new(wire.Answer)
	if d.answer(nil, out); !out.Allowed {
		e.service.answer(&d, &r, out)
		return out, nil
	}
	if out.Remaining >= 0 {
		out.Remaining++ // the peek words it as charged
	}
	return out, nil
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
