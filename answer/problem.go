package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

const (
	problemType  = "application/problem+json"
	exceededType = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	exceeded     = "Request cannot be satisfied as assigned quota has been exceeded"
	exceededCode = "RATE_LIMIT_EXCEEDED"
)

// problem is the body of an answer that is not a success, as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Instance is the decision id.
	Instance string     `json:"instance,omitempty"`
	Violated []string   `json:"violated-policies,omitzero"`
	Error    *exceeding `json:"error,omitempty"`
}

type exceeding struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Details details `json:"details"`
}

// details are absent where there is nothing to say: no window, no time after which a
// retry makes sense.
type details struct {
	Limit      *int64   `json:"limit,omitempty"`
	Window     *float64 `json:"window_seconds,omitempty"`
	RetryAfter *int64   `json:"retry_after_seconds,omitempty"`
	ResetAt    *int64   `json:"reset_at,omitempty"`
}

// denied is the body of a denial.
func (v *view) denied(status int) problem {
	sentence := v.sentence()
	return problem{
		Type: exceededType, Title: exceeded, Status: status, Detail: sentence,
		Instance: v.d.GetDecisionId(), Violated: v.violated(),
		Error: &exceeding{Code: exceededCode, Message: sentence, Details: v.details()},
	}
}

// sentence tells the client why; it says nothing of the machinery.
func (v *view) sentence() string {
	switch {
	case v.d.GetMode() == modeBlockList && !v.d.GetNever():
		return fmt.Sprintf("This client is blocked for a while; retry after %d s.", v.retryAfter())
	case v.d.GetMode() == modeBlockList:
		return "This client is blocked; no waiting helps."
	case v.headline == nil && v.d.GetNever():
		return "The request asks for more than its limit ever has; no waiting helps."
	case v.headline == nil:
		return fmt.Sprintf("Too many requests; retry after %d s.", v.retryAfter())
	case v.d.GetNever():
		return fmt.Sprintf("The request asks for more than the limit %s (%d) ever has; no waiting helps.", v.headline.GetRuleId(), v.d.GetLimit())
	}
	per := ""
	if window := v.headline.GetWindow().AsDuration(); window > 0 {
		per = fmt.Sprintf(" in %s s", strconv.FormatFloat(window.Seconds(), 'f', -1, 64))
	}
	return fmt.Sprintf("The limit %s (%d%s) is used up; retry after %d s.", v.headline.GetRuleId(), v.d.GetLimit(), per, v.retryAfter())
}

func (v *view) violated() []string {
	ids := []string{}
	for _, l := range v.d.GetLimits() {
		if !l.GetAllowed() && !l.GetShadow() {
			ids = append(ids, l.GetRuleId())
		}
	}
	if len(ids) == 0 && v.headline != nil {
		ids = []string{v.headline.GetRuleId()}
	}
	return ids
}

func (v *view) details() details {
	var out details
	if v.headline != nil {
		out.Limit = new(v.d.GetLimit())
		if window := v.headline.GetWindow().AsDuration(); window > 0 {
			out.Window = new(window.Seconds())
		}
	}
	if !v.d.GetNever() {
		out.RetryAfter, out.ResetAt = new(v.retryAfter()), new(v.resetAt())
	}
	return out
}

func (a *Answer) body(p problem) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		panic("answer: a problem cannot be encoded: " + err.Error()) // texts and numbers always can
	}
	a.Body = out.Bytes()
	a.add("Content-Type", problemType)
}

// quote is a String of RFC 9651. That has printable ASCII only; other bytes of an id
// are percent-encoded.
func quote(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&out, "%%%02X", c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}
