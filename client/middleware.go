package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// statusGone is what nobody reads any more; it is there for logs.
const statusGone = 499

// MiddlewareOptions say who asks for what, and how to answer.
type MiddlewareOptions struct {
	// Client asks the region. Required.
	Client *Client
	// Identity says where the API key, the user and the client's address are found; nil:
	// DefaultIdentity.
	Identity *identity.Config
	// Attributes changes the attributes of a check, which are endpoint, method, ip, user
	// and api_key as GET /check has them: with a tier, or the user of a session. It must
	// not keep the map. nil: they stay as they are.
	Attributes func(r *http.Request, attributes map[string]string)
	// Cost is what a request consumes; nil: 1.
	Cost func(*http.Request) int64
	// Costs are what it consumes of other units than requests, as rules name them
	// (tokens_in, ...), beside those of Identity.AttributeHeaders, which win; nil: nothing.
	Costs func(*http.Request) map[string]int64
	// Namespace separates services that share an installation.
	Namespace string
	// Headers says which rate limit headers an answer has; the zero value is both
	// families.
	Headers httpanswer.Headers
	// DenyStatus is the status of a denial, 400 to 599; 0: 429, or 503 while the region does
	// not know its rules.
	DenyStatus int
}

// DefaultIdentity is that of GET /check, but for the user: a service that clients reach
// themselves must not take their word for it. Set Attributes to add who is signed in.
func DefaultIdentity() identity.Config {
	c := identity.DefaultConfig()
	c.UserHeader = ""
	return c
}

// Middleware lets through to next what the region allows, with the headers of the
// decision, and answers the rest itself: 429 (503 while the region does not know its rules) and
// the problem that GET /check answers, or
// 400 for what cannot be decided (two API keys, one of more than 4 KiB). A request that
// a queue delays (leaky_bucket with mode: queue) waits here. Use it before anything that
// costs something, and behind what checks that API keys exist.
func Middleware(next http.Handler, o MiddlewareOptions) (http.Handler, error) {
	if o.Client == nil {
		return nil, errors.New("client: a middleware needs a Client")
	}
	if o.DenyStatus != 0 && (o.DenyStatus < 400 || o.DenyStatus > 599) {
		return nil, fmt.Errorf("client: deny status %d; give one from 400 to 599", o.DenyStatus)
	}
	who := DefaultIdentity()
	if o.Identity != nil {
		who = *o.Identity
	}
	rules, err := identity.New(who)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &middleware{next: next, options: o, rules: rules}, nil
}

// middleware is safe for concurrent use.
type middleware struct {
	next    http.Handler
	options MiddlewareOptions
	rules   *identity.Rules
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := m.request(r)
	if err != nil {
		httpanswer.Refused(http.StatusBadRequest, err.Error()).ServeHTTP(w, r)
		return
	}
	decision, err := m.options.Client.Check(r.Context(), in)
	if err == nil {
		err = wait(r.Context(), decision)
	}
	switch {
	case errors.Is(err, ErrInvalid):
		httpanswer.Refused(http.StatusBadRequest, err.Error()).ServeHTTP(w, r)
		return
	case err != nil:
		w.WriteHeader(statusGone)
		return
	}
	out := httpanswer.Of(decision, time.Now(), httpanswer.Options{Headers: m.options.Headers, DenyStatus: m.options.DenyStatus})
	if !decision.GetAllowed() {
		out.ServeHTTP(w, r)
		return
	}
	out.AddTo(w.Header())
	m.next.ServeHTTP(w, r)
}

func (m *middleware) request(r *http.Request) (*aliquotv1.CheckRequest, error) {
	uri := r.RequestURI
	if uri == "" {
		uri = r.URL.RequestURI()
	}
	of := identity.Request{Header: r.Header, Peer: r.RemoteAddr, Method: r.Method, URI: uri}
	attributes, err := m.rules.Attributes(of)
	if err != nil {
		return nil, err
	}
	mapped, err := m.rules.Mapped(of)
	if err != nil {
		return nil, err
	}
	if m.options.Attributes != nil {
		m.options.Attributes(r, attributes)
	}
	in := &aliquotv1.CheckRequest{Attributes: attributes, Namespace: m.options.Namespace}
	if m.options.Cost != nil {
		in.Cost = new(m.options.Cost(r))
	}
	if m.options.Costs != nil {
		in.Costs = m.options.Costs(r)
	}
	for _, c := range mapped.Costs {
		if in.Costs == nil {
			in.Costs = make(map[string]int64, len(mapped.Costs))
		}
		in.Costs[c.Unit] = c.Cost
	}
	return in, nil
}

// wait waits for as long as the decision's queues say, which is nothing to tell the
// client then.
func wait(ctx context.Context, d *aliquotv1.CheckResponse) error {
	delay := d.GetDelay().AsDuration()
	if !d.GetAllowed() || delay <= 0 {
		return nil
	}
	d.Delay = nil
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
