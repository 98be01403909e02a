package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const (
	apiKeyHeader  = "X-API-Key"
	authorization = "Authorization"
)

// source is a place where an API key may be.
type source struct {
	kind   string // header, bearer, query, jwt
	name   string
	header header // only of the kind header
}

func parseSource(text string) (source, error) {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case text == "header":
		return source{kind: kind, header: headerOf(apiKeyHeader)}, nil
	case text == "bearer", kind == "query" && name != "", kind == "jwt" && name != "":
		return source{kind: kind, name: name}, nil
	case kind == "header" && named && isToken(name):
		return source{kind: kind, header: headerOf(name)}, nil
	}
	return source{}, fmt.Errorf("%q is not a place of an API key; use header, header:NAME, bearer, query:NAME or jwt:CLAIM", text)
}

// QueryNames returns the names of the query parameters that may contain an API key.
func (r *Rules) QueryNames() []string {
	var names []string
	for _, s := range r.keys {
		if s.kind == "query" {
			names = append(names, s.name)
		}
	}
	return names
}

// key returns the API key of the first source that has one. It refuses a request with another key
// in another place: otherwise a client that is admitted by the other key could hide the one that
// counts.
func (r *Rules) key(h http.Header, query string) (string, error) {
	found, at := "", source{}
	for _, s := range r.keys {
		if found != "" && s.place() == at.place() {
			continue
		}
		key, err := s.key(h, query)
		switch {
		case err != nil:
			return "", err
		case found == "":
			found, at = key, s
		case key != "" && key != found:
			return "", fmt.Errorf("%w: %s and %s have different API keys; send one, or name the one that counts alone in --api-key-from", ErrInvalid, at.place(), s.place())
		}
	}
	return found, nil
}

// place returns the source in words, for an error.
func (s source) place() string {
	switch s.kind {
	case "header":
		return "the header " + s.header.name
	case "query":
		return "the query parameter " + s.name
	}
	return "the bearer token"
}

func (s source) key(h http.Header, query string) (string, error) {
	switch s.kind {
	case "header":
		return s.header.one(h)
	case "query":
		return inQuery(query, s.name)
	}
	token, err := bearer(h)
	if err != nil || s.kind == "bearer" {
		return token, err
	}
	return claim(token, s.name), nil
}

// inQuery returns a query parameter. It skips pairs that cannot be parsed, as most services do.
func inQuery(query, name string) (string, error) {
	values, _ := url.ParseQuery(query)
	if n := len(values[name]); n > 1 {
		return "", fmt.Errorf("%w: the query parameter %s is there %d times; send it once", ErrInvalid, name, n)
	}
	return values.Get(name), nil
}

// bearer returns the token of Authorization: Bearer; empty for other schemes.
func bearer(h http.Header) (string, error) {
	value, err := header{authorization, authorization}.one(h)
	scheme, token, _ := strings.Cut(value, " ")
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return "", err
	}
	return strings.TrimSpace(token), nil
}

// claim returns a claim of a JWT's payload. It is empty if the token is not a JWT, or has no such
// claim that is a text or a number. The signature is not verified.
func claim(token, name string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	raw := bytes.TrimSpace(claims[name])
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// isToken reports whether s has only characters that RFC 9110 allows in the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
