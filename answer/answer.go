// Package answer puts a decision into HTTP: status, headers and the body of a denial.
// The regional daemon's GET /check and the middleware of package client use it. It
// computes values from values: no I/O, no clock.
package answer

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Headers says which of the two families of rate limit headers an answer has.
// Retry-After, X-RateLimit-Delay and X-Decision-Id belong to neither: they are what a
// client is to act on, or an operator to ask about.
type Headers uint8

// The zero value is Both.
const (
	// Both families.
	Both Headers = iota
	// Legacy is X-RateLimit-Limit, -Remaining, -Reset, and -Policy when degraded.
	Legacy
	// IETF is RateLimit-Policy and RateLimit, as in draft-ietf-httpapi-ratelimit-headers.
	IETF
	// None of them.
	None
)

// ParseHeaders reads "both", "legacy", "ietf" or "none".
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

// Options of an answer.
type Options struct {
	Headers Headers
	// DenyStatus is the status of a denial; 0: 429.
	DenyStatus int
}

// Field is one header.
type Field struct{ Name, Value string }

// Answer is an HTTP response. The zero value has no status and must not be served.
type Answer struct {
	Status int
	// Fields are the headers, names as documented; none is there twice.
	Fields []Field
	// Body is empty for what is allowed.
	Body []byte
}

// Of puts a decision made at now (any clock that says the date) into HTTP: 200 without
// a body, or 429 with a problem (RFC 9457).
func Of(d *aliquotv1.CheckResponse, now time.Time, o Options) Answer {
	v := viewOf(d, now)
	a := Answer{Status: http.StatusOK, Fields: v.fields(o.Headers)}
	if d.GetAllowed() {
		return a
	}
	a.Status = http.StatusTooManyRequests
	if o.DenyStatus != 0 {
		a.Status = o.DenyStatus
	}
	a.body(v.denied(a.Status))
	return a
}

// Fields are the headers of a decision made at now, for who puts them elsewhere than
// into an Answer.
func Fields(d *aliquotv1.CheckResponse, now time.Time, h Headers) []Field {
	return viewOf(d, now).fields(h)
}

func viewOf(d *aliquotv1.CheckResponse, now time.Time) *view {
	return &view{d: d, headline: headline(d), now: now}
}

func (v *view) fields(h Headers) []Field {
	var a Answer
	if h == Both || h == Legacy {
		v.legacy(&a)
	}
	if h == Both || h == IETF {
		v.ietf(&a)
	}
	return Act{
		Allowed: v.d.GetAllowed(), Never: v.d.GetNever(), DecisionID: v.d.GetDecisionId(),
		Delay: v.d.GetDelay().AsDuration(), RetryAfter: v.d.GetRetryAfter().AsDuration(),
	}.Append(a.Fields)
}

// Act is what of a decision a client is to act on, or an operator to ask about. Its
// headers belong to neither family, and an ordinary request that passes has none.
type Act struct {
	Allowed, Never    bool
	DecisionID        string
	Delay, RetryAfter time.Duration
}

// Append adds its headers to others.
func (d Act) Append(to []Field) []Field {
	if d.DecisionID != "" {
		to = append(to, Field{"X-Decision-Id", d.DecisionID})
	}
	if d.Allowed && d.Delay > 0 {
		to = append(to, Field{"X-RateLimit-Delay", fmt.Sprintf("%.3f", ceil(d.Delay, time.Millisecond).Seconds())})
	}
	if !d.Allowed && !d.Never {
		to = append(to, Field{"Retry-After", strconv.FormatInt(wait(d.RetryAfter), 10)})
	}
	return to
}

// Refused is the answer to a request that cannot be decided: status and what to do.
func Refused(status int, detail string) Answer {
	a := Answer{Status: status}
	a.body(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
	return a
}

// AddTo sets the answer's headers in h, under the very names they are documented by:
// Header.Get of such a name finds them only after they went over a connection.
func (a Answer) AddTo(h http.Header) {
	for _, f := range a.Fields {
		h.Del(f.Name)
		h[f.Name] = []string{f.Value}
	}
}

// ServeHTTP writes the answer.
func (a Answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.AddTo(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client has gone: nobody to tell
}

func (a *Answer) add(name, value string) { a.Fields = append(a.Fields, Field{name, value}) }

// view is a decision, and the limit that makes its headline.
type view struct {
	d *aliquotv1.CheckResponse
	// headline is nil when no limit was asked, or only some that watch.
	headline *aliquotv1.LimitDecision
	now      time.Time
}

func headline(d *aliquotv1.CheckResponse) *aliquotv1.LimitDecision {
	if d.GetRuleId() == "" {
		return nil
	}
	for _, l := range d.GetLimits() {
		if l.GetRuleId() == d.GetRuleId() {
			if l.GetShadow() {
				return nil
			}
			return l
		}
	}
	return &aliquotv1.LimitDecision{RuleId: d.GetRuleId()}
}

// degraded: the region's store did not decide, and what remains is not known.
func (v *view) degraded() bool {
	switch v.d.GetMode() {
	case modeEmergency, modeFailOpen, modeFailClosed, modeNoRulesYet:
		return true
	}
	return false
}

// legacy headers.
func (v *view) legacy(a *Answer) {
	if v.headline != nil {
		a.add("X-RateLimit-Limit", strconv.FormatInt(v.d.GetLimit(), 10))
	}
	if v.degraded() {
		a.add("X-RateLimit-Remaining", "-1")
		a.add("X-RateLimit-Policy", "degraded")
	} else if v.headline != nil {
		a.add("X-RateLimit-Remaining", strconv.FormatInt(max(0, v.d.GetRemaining()), 10))
	}
	if v.headline != nil {
		a.add("X-RateLimit-Reset", strconv.FormatInt(v.resetAt(), 10))
	}
}

// ietf headers. What remains is left out while it is not known.
func (v *view) ietf(a *Answer) {
	if v.headline == nil {
		return
	}
	id := quote(v.headline.GetRuleId())
	policy := id + ";q=" + strconv.FormatInt(v.d.GetLimit(), 10)
	if window := v.headline.GetWindow().AsDuration(); window > 0 {
		policy += ";w=" + strconv.FormatInt(seconds(window), 10)
	}
	switch unit := v.headline.GetUnit(); unit {
	case "", "requests":
	case "concurrency":
		policy += `;qu="concurrent-requests"`
	default:
		policy += ";qu=" + quote(unit)
	}
	a.add("RateLimit-Policy", policy)
	if v.degraded() || v.d.GetNever() {
		return
	}
	a.add("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", id, max(0, v.d.GetRemaining()), seconds(v.d.GetResetAfter().AsDuration())))
}

// retryAfter is in whole seconds, never early and never at once.
func (v *view) retryAfter() int64 { return wait(v.d.GetRetryAfter().AsDuration()) }

func wait(d time.Duration) int64 { return max(1, seconds(d)) }

// resetAt is the Unix second by which the limit is whole again.
func (v *view) resetAt() int64 {
	at := v.now.Add(v.d.GetResetAfter().AsDuration())
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

func seconds(d time.Duration) int64 { return int64(ceil(d, time.Second) / time.Second) }

// ceil rounds up to a multiple of unit, unless that is beyond all durations.
func ceil(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 && d <= math.MaxInt64-unit {
		return d - rest + unit
	}
	return d
}
