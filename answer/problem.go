package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

const (
	problemType  = "application/problem+json"
	exceededType = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	exceeded     = "Request cannot be satisfied as assigned quota has been exceeded"
	exceededCode = "RATE_LIMIT_EXCEEDED"

	reducedType = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	reduced     = "Request cannot be satisfied due to temporary server capacity constraints"
	reducedCode = "TEMPORARY_REDUCED_CAPACITY"
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
func (d *Decision) denied(status int, now time.Time) problem {
	sentence := d.sentence()
	p := problem{
		Type: exceededType, Title: exceeded, Status: status, Detail: sentence,
		Instance: d.DecisionID, Violated: d.violated(),
		Error: &exceeding{Code: exceededCode, Message: sentence, Details: d.details(now)},
	}
	if d.reduced() {
		p.Type, p.Title, p.Violated, p.Error.Code = reducedType, reduced, nil, reducedCode
	}
	return p
}

// sentence tells the client why; it says nothing of the machinery.
func (d *Decision) sentence() string {
	switch {
	case d.reduced():
		return fmt.Sprintf("This service does not know its limits yet; retry after %d s.", d.wait())
	case d.Mode == modeBlockList && !d.Never:
		return fmt.Sprintf("This client is blocked for a while; retry after %d s.", d.wait())
	case d.Mode == modeBlockList:
		return "This client is blocked; no waiting helps."
	case d.Rule == "" && d.Never:
		return "The request asks for more than its limit ever has; no waiting helps."
	case d.Rule == "":
		return fmt.Sprintf("Too many requests; retry after %d s.", d.wait())
	case d.Never:
		return fmt.Sprintf("The request asks for more than the limit %s (%d) ever has; no waiting helps.", d.Rule, d.Limit)
	}
	per := ""
	if window := d.Window; window > 0 {
		per = fmt.Sprintf(" in %s s", strconv.FormatFloat(window.Seconds(), 'f', -1, 64))
	}
	return fmt.Sprintf("The limit %s (%d%s) is used up; retry after %d s.", d.Rule, d.Limit, per, d.wait())
}

func (d *Decision) violated() []string {
	switch {
	case len(d.Violated) > 0:
		return d.Violated
	case d.Rule != "":
		return []string{d.Rule}
	}
	return []string{}
}

func (d *Decision) details(now time.Time) details {
	var out details
	if d.Rule != "" {
		out.Limit = new(d.Limit)
		if window := d.Window; window > 0 {
			out.Window = new(window.Seconds())
		}
	}
	switch {
	case d.reduced():
		out.RetryAfter = new(d.wait())
	case !d.Never:
		out.RetryAfter, out.ResetAt = new(d.wait()), new(d.resetAt(now))
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
