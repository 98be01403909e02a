package regional

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aliquot/answer"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rls"
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
	var strictest *aliquotv1.CheckResponse
	for i := range checks {
		e.warn(&checks[i])
		var of *aliquotv1.CheckResponse
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
	for _, f := range answer.Fields(strictest, time.Now(), e.headers) {
		out.Headers = append(out.Headers, rls.Header{Name: f.Name, Value: f.Value})
	}
	return nil
}

func requestOf(c *rls.Check) request {
	return request{attributes: c.Attributes, cost: limit.Tokens(c.Cost) * limit.Token}
}

func (e *envoyService) answer(d *decision, r *request) (*aliquotv1.CheckResponse, error) {
	if d.tooMany > 0 {
		return nil, tooMany(d.tooMany)
	}
	return e.service.answer(d, r), nil
}

// look answers a descriptor that costs nothing: over if the limit would not hold one
// more. A denial is one like any other; what passes leaves no trace.
func (e *envoyService) look(ctx context.Context, c *rls.Check) (*aliquotv1.CheckResponse, error) {
	r := requestOf(c)
	r.cost = limit.Token
	d, err := e.service.limiter.peek(ctx, e.service.limiter.policies.load(), &r)
	if err != nil {
		return nil, err
	}
	if d.tooMany > 0 {
		return nil, tooMany(d.tooMany)
	}
	out := d.answer(nil)
	if !out.GetAllowed() {
		return e.service.answer(&d, &r), nil
	}
	if out.GetRemaining() >= 0 {
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
func statusOf(of *aliquotv1.CheckResponse) rls.Status {
	out := rls.Status{Over: !of.GetAllowed()}
	switch of.GetMode() {
	case modeAllowList:
		out.Remaining = rls.Unlimited
		return out
	case modeEmergency, modeFailOpen, modeFailClosed:
		return out
	}
	for _, l := range of.GetLimits() {
		if l.GetRuleId() == of.GetRuleId() && !l.GetShadow() {
			out.Name, out.Limit, out.Window = l.GetRuleId(), of.GetLimit(), l.GetWindow().AsDuration()
			out.Remaining, out.Reset = of.GetRemaining(), of.GetResetAfter().AsDuration()
			break
		}
	}
	return out
}

// stricterAnswer orders the answers of one request for its headers, as a check's limits
// are ordered for its headline: denials first, those for ever before all, then the
// longest wait; then what has the least left.
func stricterAnswer(a, than *aliquotv1.CheckResponse) bool {
	switch {
	case a.GetAllowed() != than.GetAllowed():
		return !a.GetAllowed()
	case a.GetNever() != than.GetNever():
		return a.GetNever()
	case !a.GetAllowed():
		return a.GetRetryAfter().AsDuration() > than.GetRetryAfter().AsDuration()
	case (a.GetRuleId() == "") != (than.GetRuleId() == ""):
		return a.GetRuleId() != ""
	}
	return a.GetRemaining()*than.GetLimit() < than.GetRemaining()*a.GetLimit()
}
