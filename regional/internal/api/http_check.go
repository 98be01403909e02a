package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"aliquot/regional/internal/explain"
	"aliquot/regional/internal/overload"

	"connectrpc.com/connect"

	"aliquot/internal/checkwire"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// checkPath is the path of GET /check.
const checkPath = "/check"

// httpCheck serves GET /check, the call of a proxy before it lets a request pass (nginx
// auth_request, Traefik forwardAuth, Caddy forward_auth, Envoy ext_authz). It checks every method
// alike, and reads no body. Safe for concurrent use.
type httpCheck struct {
	service    *Service
	rules      *identity.Rules
	queryNames []string // of query parameters that may have an API key
	headers    httpanswer.Headers
	log        *slog.Logger
	// stranger limits the warning to one: a proxy that is not trusted is a mistake more often than
	// an attack.
	stranger sync.Once
	kept     sync.Pool // *httpCall
}

// httpCall holds the buffers of a call, which are kept for the next one.
type httpCall struct {
	attributes rules.Attributes
	costs      rules.Costs
	answer     checkwire.Answer
}

func newHTTPCheck(s *Service, c *Config) *httpCheck {
	return &httpCheck{service: s, rules: c.Identity, queryNames: c.Identity.QueryNames(), headers: c.Headers, log: c.Log}
}

// before serves /check and the paths under it, and leaves all others to next. It comes before the
// mux, which would redirect a path like /check//x to another spelling.
func (h *httpCheck) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if path == checkPath || strings.HasPrefix(path, checkPath+"/") {
			h.serve(w, r, path)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers 200, or the status of a denial, or 400 to what it cannot read.
func (h *httpCheck) serve(w http.ResponseWriter, r *http.Request, path string) {
	out, err := h.decide(r, path)
	if err != nil {
		out = httpanswer.Refused(httpStatus(err), messageOf(err))
	}
	out.Fields = append(out.Fields, httpanswer.Field{Name: "Cache-Control", Value: "no-store"})
	out.ServeHTTP(w, r)
}

func (h *httpCheck) decide(r *http.Request, path string) (out httpanswer.Answer, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = h.service.panics.Caught(checkPath, cause)
		}
	}()
	o, err := originalOf(r, path, h.queryNames)
	if err != nil {
		return httpanswer.Answer{}, err
	}
	if overload.LateCall(r.Context()) {
		h.service.metrics.Overload.Inc()
		return h.crowdedOut(o.denyStatus), nil
	}
	of := identity.Request{Header: r.Header, Peer: r.RemoteAddr, Method: o.method, URI: o.uri}
	all, err := h.rules.All(of)
	var mapped identity.Mapped
	if err == nil {
		mapped, err = h.rules.Mapped(of)
	}
	if err != nil && path == checkPath && o.denyStatus != 0 {
		// A proxy that asks for a status takes any other for a failure of this daemon.
		return httpanswer.Refused(o.denyStatus, messageOf(err)), nil
	}
	if err != nil {
		return httpanswer.Answer{}, err
	}
	if o.costTold && !h.rules.TrustsPeer(r.RemoteAddr) {
		return httpanswer.Answer{}, fmt.Errorf("%w: cost is believed from --trusted-proxies alone; leave it out, or name the network of the proxy there", charge.ErrInvalid)
	}
	h.warn(r)
	call, _ := h.kept.Get().(*httpCall)
	if call == nil {
		call = new(httpCall)
	}
	for _, a := range all {
		if a.Value != "" {
			call.attributes = append(call.attributes, rules.Attribute(a))
		}
	}
	call.add(&mapped)
	ctx := r.Context()
	if err := h.service.check(ctx, checkwire.Request{Attributes: call.attributes, Cost: o.cost, Namespace: o.namespace, Costs: call.costs}, &call.answer); errors.Is(err, overload.ErrCrowded) {
		return h.crowdedOut(o.denyStatus), nil
	} else if err != nil {
		return httpanswer.Answer{}, err
	}
	h.service.throttle.Answered(ctx, !explain.DeniedByRules(&call.answer))
	decision := httpDecision(&call.answer)
	call.done(&h.kept)
	return decision.Answer(time.Now(), httpanswer.Options{Headers: h.headers, DenyStatus: o.denyStatus}), nil
}

// addHeaders adds the headers of GET /check to the answer to a Check in JSON, for callers that pass
// them on to their clients. A generated client has the message instead.
func (h *httpCheck) addHeaders(ctx context.Context, of *checkwire.Answer) {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok || !strings.HasPrefix(call.RequestHeader().Get("Content-Type"), "application/json") {
		return
	}
	decision := httpDecision(of)
	httpanswer.Answer{Fields: decision.Fields(time.Now(), h.headers)}.AddTo(call.ResponseHeader())
}

// add adds what --attribute-header found.
func (c *httpCall) add(m *identity.Mapped) {
	for _, a := range m.Attributes {
		c.attributes = append(c.attributes, rules.Attribute(a))
	}
	if len(m.Attributes) > 0 {
		c.attributes.Sort()
	}
	for _, cost := range m.Costs {
		c.costs = append(c.costs, rules.UnitCost(cost))
	}
}

// done forgets the request, and keeps the buffers for the next. A call that ended in an error is
// not used again, because its callee may still refer to it.
func (c *httpCall) done(kept *sync.Pool) {
	clear(c.attributes)
	c.attributes, c.costs = c.attributes[:0], c.costs[:0]
	c.answer.Reset()
	kept.Put(c)
}

// httpDecision returns an answer in the form for HTTP.
func httpDecision(of *checkwire.Answer) httpanswer.Decision {
	out := httpanswer.Decision{
		Act:  httpanswer.Act{Allowed: of.Allowed, Never: of.Never, DecisionID: of.DecisionID, Delay: of.Delay, RetryAfter: of.RetryAfter, Problem: of.Problem},
		Mode: of.Mode, Limit: of.Limit, Remaining: of.Remaining, ResetAfter: of.ResetAfter, Rule: of.RuleID,
	}
	for i := range of.Limits {
		l := &of.Limits[i]
		out.AddLimit(l.RuleID, l.Allowed, l.Shadow, l.Window, l.Unit)
	}
	return out
}

// warn logs that X-Forwarded-For, the user and the attribute headers of an untrusted proxy are
// ignored. Every client of that proxy then has the proxy's address, and no tier.
func (h *httpCheck) warn(r *http.Request) {
	if name := h.rules.Unbelieved(r.Header); name != "" && !h.rules.TrustsPeer(r.RemoteAddr) {
		h.stranger.Do(func() {
			h.log.Warn("a header of a peer that is not in --trusted-proxies is ignored; if that is a proxy of yours, name its network there", "header", name, "peer", r.RemoteAddr)
		})
	}
}

func httpStatus(err error) int {
	if errors.Is(err, identity.ErrInvalid) || errors.Is(err, charge.ErrInvalid) {
		return http.StatusBadRequest
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return httpanswer.StatusClientGone
	}
	return http.StatusInternalServerError
}

// messageOf returns an error's text without the code that Connect puts in front.
func messageOf(err error) string {
	if rpcErr, ok := errors.AsType[*connect.Error](err); ok {
		return rpcErr.Message()
	}
	return err.Error()
}
