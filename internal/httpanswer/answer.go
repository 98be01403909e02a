// Package httpanswer converts a decision to HTTP: status, headers and the body of a denial. The
// regional daemon's GET /check and the middleware of package client use it. It computes values from
// values: no I/O, no clock.
package httpanswer

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Headers selects which of the two families of rate limit headers an answer has. Retry-After,
// X-RateLimit-Delay and X-Decision-Id belong to neither family: a client acts on them, or an
// operator asks about them.
type Headers uint8

// The values of Headers. The zero value is Both.
const (
	// Both is both families.
	Both Headers = iota
	// Legacy is X-RateLimit-Limit, -Remaining, -Reset, and -Policy when degraded.
	Legacy
	// IETF is RateLimit-Policy and RateLimit, as in draft-ietf-httpapi-ratelimit-headers-10.
	IETF
	// None is neither family.
	None
)

// ParseHeaders parses "both", "legacy", "ietf" or "none". Any other text is an error.
func ParseHeaders(text string) (Headers, error) {
	switch text {
	case "both":
		return Both, nil
	case "legacy":
		return Legacy, nil
	case "ietf":
		return IETF, nil
	case "none":
		return None, nil
	}
	return Both, fmt.Errorf("%q: use both, legacy, ietf or none", text)
}

// Modes of decisions that were made without the region's store, or without rules.
const (
	modeEmergency  = "emergency"
	modeFailOpen   = "fail_open"
	modeFailClosed = "fail_closed"
	modeBlockList  = "block_list"
	modeNoRulesYet = "no_rules_yet"
)

// Options change the form of an answer. The zero value has both families of headers and the usual
// status.
type Options struct {
	Headers Headers
	// DenyStatus is the status of a denial. 0 means 429, or 503 for the problem ReducedCapacity.
	DenyStatus int
}

// Field is one header.
type Field struct{ Name, Value string }

// Answer is an HTTP response. The zero value has no status and must not be served.
type Answer struct {
	Status int
	// Fields are the headers, with names as documented. Each name is there once.
	Fields []Field
	// Body is empty for an allowed request.
	Body []byte
}

// Of converts a decision to HTTP. now is the time of the decision, by any clock that knows the
// date. The answer is 200 without a body, or 429 with a problem (RFC 9457), or 503 if nothing is
// known on which a decision could be based.
func Of(d *aliquotv1.CheckResponse, now time.Time, o Options) Answer {
	plain := decisionOf(d)
	return plain.Answer(now, o)
}

// StatusClientGone is the status for a client that did not wait for the decision. Proxies write it to their logs.
const StatusClientGone = 499

// titleOf returns the title of a problem of no other type than its status.
func titleOf(status int) string {
	if status == StatusClientGone {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}

// Refused returns the answer to a request that cannot be decided. detail says what the client
// should do.
func Refused(status int, detail string) Answer {
	a := Answer{Status: status}
	a.body(problem{Type: "about:blank", Title: titleOf(status), Status: status, Detail: detail})
	return a
}

// AddTo sets the answer's headers in h, in the canonical spelling that Header.Get looks for.
func (a Answer) AddTo(h http.Header) {
	values := make([]string, len(a.Fields))
	for i := range a.Fields {
		f := &a.Fields[i]
		values[i] = f.Value
		h[canonical(f.Name)] = values[i : i+1 : i+1]
	}
}

// canonical returns http.CanonicalHeaderKey of a name. For the names of this package it does not
// allocate.
func canonical(name string) string {
	switch name {
	case "X-RateLimit-Limit":
		return "X-Ratelimit-Limit"
	case "X-RateLimit-Remaining":
		return "X-Ratelimit-Remaining"
	case "X-RateLimit-Reset":
		return "X-Ratelimit-Reset"
	case "X-RateLimit-Policy":
		return "X-Ratelimit-Policy"
	case "X-RateLimit-Delay":
		return "X-Ratelimit-Delay"
	case "X-RateLimit-Problem":
		return "X-Ratelimit-Problem"
	case "RateLimit-Policy":
		return "Ratelimit-Policy"
	case "RateLimit":
		return "Ratelimit"
	case "Cache-Control", "Content-Type", "Retry-After", "X-Decision-Id":
		return name
	}
	return http.CanonicalHeaderKey(name)
}

// ServeHTTP writes the answer. It leaves the length of an empty body to the server, which sends it,
// except for HEAD, where the server cannot know it.
func (a Answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	a.AddTo(h)
	if len(a.Body) > 0 || r.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // an error means that the client has gone
	}
}

func (a *Answer) add(name, value string) { a.Fields = append(a.Fields, Field{name, value}) }
