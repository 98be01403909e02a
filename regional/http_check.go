package regional

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aliquot/answer"
	"aliquot/identity"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// checkPath is where proxies ask.
const checkPath = "/check"

// statusClientGone is what nobody reads any more; proxies write it in their logs.
const statusClientGone = 499

// httpCheck is GET /check: what a proxy asks before it lets a request pass (nginx
// auth_request, Traefik forwardAuth, Caddy forward_auth, Envoy ext_authz). Every
// method is checked alike, and no body is read. Safe for concurrent use.
type httpCheck struct {
	service *service
	rules   *identity.Rules
	headers answer.Headers
	log     *slog.Logger
	// stranger is told once: a proxy that is not trusted is a mistake more often than
	// an attack.
	stranger sync.Once
}

func newHTTPCheck(s *service, c *Config, log *slog.Logger) (*httpCheck, error) {
	rules, err := identity.New(c.Identity)
	if err != nil {
		return nil, err
	}
	headers, err := answer.ParseHeaders(c.Headers)
	if err != nil {
		return nil, err
	}
	return &httpCheck{service: s, rules: rules, headers: headers, log: log}, nil
}

// before serves /check and what is under it, and leaves the rest to next. It stands
// before the mux, which would redirect a path like /check//x to another spelling.
func (h *httpCheck) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if path == checkPath || strings.HasPrefix(path, checkPath+"/") {
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers 200 or the status of a denial, or 400 to what it cannot read.
func (h *httpCheck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	out, err := h.decide(r)
	if err != nil {
		out = answer.Refused(httpStatus(err), messageOf(err))
	}
	out.ServeHTTP(w, r)
}

func (h *httpCheck) decide(r *http.Request) (out answer.Answer, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = h.service.panics.caught(checkPath, cause)
		}
	}()
	o, err := originalOf(r, h.rules.QueryNames())
	if err != nil {
		return answer.Answer{}, err
	}
	attributes, err := h.rules.Attributes(identity.Request{Header: r.Header, Peer: r.RemoteAddr, Method: o.method, URI: o.uri})
	if err != nil {
		return answer.Answer{}, err
	}
	h.warn(r)
	decision, err := h.service.Check(r.Context(), &aliquotv1.CheckRequest{Attributes: attributes, Cost: o.cost, Namespace: o.namespace})
	if err != nil {
		return answer.Answer{}, err
	}
	return answer.Of(decision, time.Now(), answer.Options{Headers: h.headers, DenyStatus: o.denyStatus}), nil
}

// warn tells that X-Forwarded-For is not believed: every client of that proxy has the
// proxy's address then.
func (h *httpCheck) warn(r *http.Request) {
	if r.Header.Get("X-Forwarded-For") == "" || h.rules.TrustsPeer(r.RemoteAddr) {
		return
	}
	h.stranger.Do(func() {
		h.log.Warn("the X-Forwarded-For of a peer that is not in --trusted-proxies is ignored; if that is a proxy of yours, name its network there", "peer", r.RemoteAddr)
	})
}

func httpStatus(err error) int {
	if errors.Is(err, identity.ErrInvalid) || errors.Is(err, errInvalid) {
		return http.StatusBadRequest
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return statusClientGone
	}
	return http.StatusInternalServerError
}

// messageOf is an error without the code that Connect puts in front.
func messageOf(err error) string {
	if rpcErr, ok := errors.AsType[*connect.Error](err); ok {
		return rpcErr.Message()
	}
	return err.Error()
}
