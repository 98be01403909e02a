// Package identity reads from an HTTP request who asks and for what: the attributes of a check. The
// regional daemon's GET /check and the middleware of package client use the same rules. It computes
// values from values: no I/O, no clock.
package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Names of the attributes that Attributes sets.
const (
	APIKey   = "api_key"
	User     = "user"
	IP       = "ip"
	Endpoint = "endpoint"
	// DecodedEndpoint is the path as a server may read it that decodes further than Endpoint. It is
	// there only if the two differ. rules.DecodedEndpoint explains its use.
	DecodedEndpoint = "endpoint_decoded"
	Method          = "method"
)

// Prefixes of the api_key of a client without an API key, and of API keys that look like one.
const (
	userPrefix = "user:"
	ipPrefix   = "ip:"
	keyPrefix  = "key:"
)

// maxValueBytes is the longest value of an attribute. The daemons refuse longer ones.
const maxValueBytes = 4 << 10

// ErrInvalid is wrapped by all errors about a request. No such error shows a value, which may be a
// secret.
var ErrInvalid = errors.New("invalid request")

// Config says where the parts of an identity are.
type Config struct {
	// APIKeyFrom are the places of the API key. The first place that has one counts: "header"
	// (X-API-Key), "header:NAME", "bearer" (the whole token of Authorization: Bearer), "query:NAME"
	// (of the original URI), or "jwt:CLAIM" (a claim of the bearer token). The token is NOT
	// verified here, so jwt: is only for a daemon behind a server that verifies it.
	APIKeyFrom []string
	// UserHeader is the header with the user's id; empty means none. The header counts only if it
	// comes from one of TrustedProxies, which must set or strip it, because a client can send it
	// too.
	UserHeader string
	// AttributeHeaders take attributes and costs from headers, "X-Tier=tier" and
	// "X-Tokens=costs.tokens", and from claims of the bearer token, "jwt:plan=tier", which is NOT
	// verified here. They count only if they come from one of TrustedProxies, which must set or
	// strip these headers.
	AttributeHeaders []string
	// TrustedProxies are networks (CIDR, or single addresses) whose X-Forwarded-For, UserHeader and
	// AttributeHeaders count.
	TrustedProxies []string
}

// DefaultConfig takes the key from X-API-Key or the bearer token and the user from X-User-Id, and
// trusts proxies on this host. It does not trust private networks, because then every client on
// such a network could choose its own address.
func DefaultConfig() Config {
	return Config{
		APIKeyFrom:     []string{"header", "bearer"},
		UserHeader:     "X-User-Id",
		TrustedProxies: []string{"127.0.0.0/8", "::1"},
	}
}

// Rules are a compiled Config. Safe for concurrent use.
type Rules struct {
	keys    []source
	user    header // without a name: no header has the user
	trusted []netip.Prefix
	// mappings are sorted by the names that they set.
	mappings []mapping
}

// New compiles c. Its errors name the wrong entry.
func New(c Config) (*Rules, error) {
	r := &Rules{user: headerOf(c.UserHeader)}
	if c.UserHeader != "" && !isToken(c.UserHeader) {
		return nil, fmt.Errorf("the user header %q is not the name of a header", c.UserHeader)
	}
	for _, text := range c.APIKeyFrom {
		s, err := parseSource(text)
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, s)
	}
	for _, text := range c.TrustedProxies {
		p, err := parsePrefix(text)
		if err != nil {
			return nil, err
		}
		r.trusted = append(r.trusted, p)
	}
	var err error
	r.mappings, err = parseMappings(c.AttributeHeaders)
	return r, err
}

// Request is the part of an HTTP request from which an identity is read.
type Request struct {
	Header http.Header
	// Peer is the other end of the connection, in the form of http.Request.RemoteAddr. Any other
	// form than host:port (a unix socket) counts as a trusted proxy.
	Peer string
	// Method and URI are the original ones. URI is a path with its query, or any other form of a
	// request target.
	Method string
	URI    string
}

// Attribute is one attribute of a check. An empty value means that it is unknown.
type Attribute struct{ Name, Value string }

// Indexes into the result of All, in the order of the names.
const (
	apiKeyAt = iota
	endpointAt
	decodedAt
	ipAt
	methodAt
	userAt
	attributes
)

// Attributes returns the attributes of a check: endpoint, method, ip and user if they are known,
// those of AttributeHeaders, and api_key. For a client without an API key, api_key is "user:" and
// its id, or else "ip:" and its address, so that a rule by api_key gives each client a bucket of
// its own. An API key that begins with such a prefix gets "key:" in front, so that no client can
// spend from another client's bucket. api_key is missing only if neither is known.
func (r *Rules) Attributes(of Request) (map[string]string, error) {
	all, err := r.All(of)
	if err != nil {
		return nil, err
	}
	mapped, err := r.Mapped(of)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(all))
	for _, a := range all {
		if a.Value != "" {
			out[a.Name] = a.Value
		}
	}
	for _, a := range mapped.Attributes {
		out[a.Name] = a.Value
	}
	return out, nil
}

// All returns the same attributes, but without those of AttributeHeaders, which Mapped returns.
// They are in the order of their names; unknown ones have no value.
func (r *Rules) All(of Request) (all [attributes]Attribute, err error) {
	path, query, err := target(of.URI)
	if err != nil {
		return all, err
	}
	all = [attributes]Attribute{apiKeyAt: {Name: APIKey}, endpointAt: {Endpoint, path}, decodedAt: {DecodedEndpoint, decoded(path)}, ipAt: {Name: IP}, methodAt: {Method, of.Method}, userAt: {Name: User}}
	ip, ok := parseHop(of.Peer)
	trusted := !ok || r.trusts(ip)
	if trusted {
		ip, ok = r.client(of.Header, ip)
	}
	if ok {
		all[ipAt].Value = group(ip)
	}
	if trusted {
		if all[userAt].Value, err = r.user.one(of.Header); err != nil {
			return all, err
		}
	}
	key, err := r.key(of.Header, query)
	if err != nil {
		return all, err
	}
	all[apiKeyAt].Value = clientKey(key, all[userAt].Value, all[ipAt].Value)
	return all, check(&all)
}

func clientKey(key, user, ip string) string {
	switch {
	case strings.HasPrefix(key, userPrefix), strings.HasPrefix(key, ipPrefix), strings.HasPrefix(key, keyPrefix):
		return keyPrefix + key
	case key != "":
		return key
	case user != "":
		return userPrefix + user
	case ip != "":
		return ipPrefix + ip
	}
	return ""
}

// check refuses values that the daemons would refuse. It leaves out the address, which is not text
// of the client's.
func check(all *[attributes]Attribute) error {
	for _, at := range [...]int{apiKeyAt, userAt, endpointAt, decodedAt, methodAt} {
		switch name, value := all[at].Name, all[at].Value; {
		case len(value) > maxValueBytes:
			return fmt.Errorf("%w: the %s has %d bytes; at most %d are allowed", ErrInvalid, name, len(value), maxValueBytes)
		case !utf8.ValidString(value):
			return fmt.Errorf("%w: the %s is not valid UTF-8", ErrInvalid, name)
		}
	}
	return nil
}

// header is the name of a header, as people write it and as the key in an http.Header.
type header struct{ name, key string }

func headerOf(name string) header { return header{name, http.CanonicalHeaderKey(name)} }

// one returns the value of a header that may be there only once: which of two values the service
// behind the daemon would use is unknown.
func (n header) one(h http.Header) (string, error) {
	values := h[n.key]
	if len(values) > 1 {
		return "", fmt.Errorf("%w: the header %s is there %d times; send it once", ErrInvalid, n.name, len(values))
	}
	if len(values) == 0 {
		return "", nil
	}
	return strings.TrimSpace(values[0]), nil
}
