package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aliquot/regional/internal/charge"
)

// original is a request as a proxy describes it, which asks whether to let it pass, with the form
// of answer that the proxy wants.
type original struct {
	method, uri string
	cost        int64
	costTold    bool // the proxy's own query gives it
	namespace   string
	denyStatus  int // 0: the usual one
}

// proxyHeader is the name of a header, as documentation writes it and in the form of an
// http.Header.
type proxyHeader struct{ name, key string }

// Headers in which proxies give the original request: nginx and similar proxies use the first,
// Traefik and Caddy the second.
var (
	uriHeaders    = [...]proxyHeader{{"X-Original-URI", "X-Original-Uri"}, {"X-Forwarded-Uri", "X-Forwarded-Uri"}}
	methodHeaders = [...]proxyHeader{{"X-Original-Method", "X-Original-Method"}, {"X-Forwarded-Method", "X-Forwarded-Method"}}
)

// originalOf reads a request to /check or to a path under it, as in the URL. A path under it comes
// from a proxy that sends the request itself with a prefix (Envoy). Then path, method and query are
// the client's own, and headers are ignored. Every such denial is 429, even while the rules are not
// known: Envoy takes a 5xx for a failure of its authorization server, which failure_mode_allow lets
// pass. keys are the query parameters that may hold an API key.
func originalOf(r *http.Request, path string, keys []string) (original, error) {
	if path != checkPath {
		uri := path[len(checkPath):] + "?" + r.URL.RawQuery
		return original{cost: 1, method: r.Method, uri: uri, denyStatus: http.StatusTooManyRequests}, nil
	}
	o, err := parameters(r.URL.RawQuery, keys)
	if err != nil {
		return o, err
	}
	if o.uri, err = told(r.Header, uriHeaders[:]); err != nil {
		return o, err
	}
	// A proxy may put another path before the client's query, as Caddy's forward_auth with a bare
	// path does. Clients could then set their own cost and namespace.
	if _, query, _ := strings.Cut(o.uri, "?"); query != "" && query == r.URL.RawQuery {
		return o, fmt.Errorf("%w: the query of the client's request came as that of %s; let the proxy send its own, or none", charge.ErrInvalid, checkPath)
	}
	if o.uri == "" {
		o.uri = "?" + r.URL.RawQuery
	}
	if o.method, err = told(r.Header, methodHeaders[:]); err != nil {
		return o, err
	}
	if o.method == "" {
		o.method = r.Method
	}
	return o, nil
}

// told returns the value of those of the headers that are present. A proxy sets only one of them.
// If another one has another value, it came with the client's request, and told fails.
func told(h http.Header, names []proxyHeader) (string, error) {
	said := ""
	for i, n := range names {
		for j, value := range h[n.key] {
			if said != "" && value != said {
				if i > 0 && j == 0 {
					return "", fmt.Errorf("%w: %s and %s disagree; let the proxy strip the one it does not set", charge.ErrInvalid, names[0].name, n.name)
				}
				return "", fmt.Errorf("%w: the header %s is there more than once", charge.ErrInvalid, n.name)
			}
			said = value
		}
	}
	return said, nil
}

// parameters reads the query of the proxy's own request. It refuses an unknown parameter, because a
// misspelt "cost" must not count as 1.
func parameters(query string, keys []string) (original, error) {
	o := original{cost: 1}
	if query == "" {
		return o, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("%w: the query of %s cannot be read; escape its values", charge.ErrInvalid, checkPath)
	}
	for name, given := range values {
		if len(given) > 1 && !slices.Contains(keys, name) {
			return o, fmt.Errorf("%w: a query parameter is there %d times; give each once", charge.ErrInvalid, len(given))
		}
		switch value := given[0]; {
		case name == "cost":
			cost, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return o, fmt.Errorf("%w: cost is not a whole number from 1 to %d", charge.ErrInvalid, int64(maxCost))
			}
			o.cost, o.costTold = cost, true
		case name == "namespace":
			o.namespace = value
		case name == "deny_status":
			status, err := strconv.Atoi(value)
			if err != nil || len(value) != 3 || status < 400 || status > 599 {
				return o, fmt.Errorf("%w: deny_status must be a status from 400 to 599", charge.ErrInvalid)
			}
			o.denyStatus = status
		case !slices.Contains(keys, name):
			return o, fmt.Errorf("%w: %s takes the query parameters %s; the client's own belong in %s",
				charge.ErrInvalid, checkPath, strings.Join(append([]string{"cost", "namespace", "deny_status"}, keys...), ", "), uriHeaders[0].name)
		}
	}
	return o, nil
}
