package httpanswer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Problem types of draft-ietf-httpapi-ratelimit-headers-10, under their registered names.
const (
	// QuotaExceeded is the problem of a request that the limit does not hold.
	QuotaExceeded = "quota-exceeded"
	// ReducedCapacity is the problem of a daemon that knows nothing on which a decision could be
	// based.
	ReducedCapacity = "temporary-reduced-capacity"
	// AbnormalUsage is the problem of a client that is blocked or held back.
	AbnormalUsage = "abnormal-usage-detected"
)

const (
	problemContent = "application/problem+json"
	problemTypes   = "https://iana.org/assignments/http-problem-types#"
)

// titles and codes of the problem types.
var (
	titles = map[string]string{
		QuotaExceeded:   "Request cannot be satisfied as assigned quota has been exceeded",
		ReducedCapacity: "Request cannot be satisfied due to temporary server capacity constraints",
		AbnormalUsage:   "Request not satisfied due to detection of abnormal request pattern",
	}
	codes = map[string]string{
		QuotaExceeded: "RATE_LIMIT_EXCEEDED", ReducedCapacity: "TEMPORARY_REDUCED_CAPACITY", AbnormalUsage: "ABNORMAL_USAGE_DETECTED",
	}
)

// problem is the body of an answer without success, in the form of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Instance is the decision id.
	Instance string `json:"instance,omitempty"`
	// Degraded: the region's store did not decide.
	Degraded bool       `json:"degraded,omitempty"`
	Violated []string   `json:"violated-policies,omitzero"`
	Error    *exceeding `json:"error,omitempty"`
}

type exceeding struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Details details `json:"details"`
}

// details leaves out fields without a value: there may be no window, and no time after which a
// retry makes sense.
type details struct {
	Limit      *int64   `json:"limit,omitempty"`
	Window     *float64 `json:"window_seconds,omitempty"`
	RetryAfter *int64   `json:"retry_after_seconds,omitempty"`
	ResetAt    *int64   `json:"reset_at,omitempty"`
}

// problem returns the problem type of a denial. If the daemon names none, the mode decides.
func (d *Decision) problem() string {
	if _, known := titles[d.Problem]; known {
		return d.Problem
	}
	switch d.Mode {
	case modeNoRulesYet, modeFailClosed:
		return ReducedCapacity
	case modeBlockList:
		return AbnormalUsage
	}
	return QuotaExceeded
}

// denied returns the body of a denial.
func (d *Decision) denied(status int, now time.Time) problem {
	sentence, kind := d.sentence(), d.problem()
	p := problem{
		Type: problemTypes + kind, Title: titles[kind], Status: status, Detail: sentence,
		Instance: d.DecisionID, Degraded: d.degraded(), Violated: d.violated(),
		Error: &exceeding{Code: codes[kind], Message: sentence, Details: d.details(now)},
	}
	if d.Mode == modeNoRulesYet {
		p.Violated = nil
	}
	return p
}

// sentence tells the client the reason, without a word about the machinery. It does not say that
// the limit is used up, because a part of it may be in another region, or the request may ask for
// more than is left.
func (d *Decision) sentence() string {
	switch kind := d.problem(); {
	case d.Mode == modeNoRulesYet:
		return fmt.Sprintf("This service does not know its limits yet; retry after %d s.", d.wait())
	case kind == ReducedCapacity && d.Rule == "":
		return fmt.Sprintf("This service cannot tell now what is left of a limit; retry after %d s.", d.wait())
	case kind == ReducedCapacity:
		return fmt.Sprintf("This service cannot tell now what is left of the limit %s; retry after %d s.", d.named(), d.wait())
	case kind == AbnormalUsage && d.Never:
		return "This client is blocked; no waiting helps."
	case kind == AbnormalUsage && d.Mode == modeBlockList:
		return fmt.Sprintf("This client is blocked for a while; retry after %d s.", d.wait())
	case kind == AbnormalUsage:
		return fmt.Sprintf("This client did not wait as told, and is held back; retry after %d s.", d.wait())
	case d.Never && d.Rule == "":
		return "The request asks for more than its limit ever has; no waiting helps."
	case d.Never && d.Limit == 0:
		return fmt.Sprintf("The limit %s admits nothing; no waiting helps.", d.Rule)
	case d.Never:
		return fmt.Sprintf("The request asks for more than the limit %s (%d) ever has; no waiting helps.", d.Rule, d.Limit)
	case d.Rule == "":
		return fmt.Sprintf("Too many requests; retry after %d s.", d.wait())
	case d.degraded():
		return fmt.Sprintf("The limit %s admits less than usual for now, and not this request; retry after %d s.", d.named(), d.wait())
	case d.Remaining > 0:
		return fmt.Sprintf("The limit %s has %d left, which is less than the request asks for; retry after %d s.", d.named(), d.Remaining, d.wait())
	}
	return fmt.Sprintf("The limit %s admits no more for now; retry after %d s.", d.named(), d.wait())
}

// named returns the limit's name for a sentence.
func (d *Decision) named() string {
	if quotaUnits[d.Unit] == concurrentRequests {
		return fmt.Sprintf("%s (%d at a time)", d.Rule, d.Limit)
	}
	if d.Window <= 0 {
		return fmt.Sprintf("%s (%d)", d.Rule, d.Limit)
	}
	return fmt.Sprintf("%s (%d in %s s)", d.Rule, d.Limit, strconv.FormatFloat(d.Window.Seconds(), 'f', -1, 64))
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
	case d.problem() == ReducedCapacity:
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
		panic("answer: a problem cannot be encoded: " + err.Error()) // texts and numbers can always be encoded
	}
	a.Body = out.Bytes()
	a.add("Content-Type", problemContent)
}
