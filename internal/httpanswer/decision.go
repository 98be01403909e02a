package httpanswer

import (
	"math"
	"net/http"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Act is the part of a decision on which a client acts, or about which an operator asks. Its
// headers belong to neither family. An ordinary request that passes has none of them.
type Act struct {
	Allowed, Never    bool
	DecisionID        string
	Delay, RetryAfter time.Duration
	// Problem is the problem type of a denial, under the name that regions use. Empty means
	// QuotaExceeded.
	Problem string
}

// Decision is a decision in plain values, with the parts that HTTP carries. The zero value is a
// denial that names no limit.
type Decision struct {
	Act
	Mode string
	// Limit, Remaining and ResetAfter are those of the headline rule.
	Limit, Remaining int64
	ResetAfter       time.Duration
	// Rule is the headline rule. It is empty if no limit was asked, or only shadow limits. Unit is
	// what the rule counts and Window the time over which it counts; empty and 0 if unknown.
	Rule, Unit string
	Window     time.Duration
	// Violated are the rules that denied the request. It is not read for an allowed request.
	Violated []string
}

// decisionOf converts a message to plain values.
func decisionOf(in *aliquotv1.CheckResponse) Decision {
	d := Decision{
		Act: Act{
			Allowed: in.GetAllowed(), Never: in.GetNever(), DecisionID: in.GetDecisionId(),
			Delay: in.GetDelay().AsDuration(), RetryAfter: in.GetRetryAfter().AsDuration(),
			Problem: in.GetProblem(),
		},
		Mode: in.GetMode(), Limit: in.GetLimit(), Remaining: in.GetRemaining(), ResetAfter: in.GetResetAfter().AsDuration(),
		Rule: in.GetRuleId(),
	}
	for _, l := range in.GetLimits() {
		d.AddLimit(l.GetRuleId(), l.GetAllowed(), l.GetShadow(), l.GetWindow().AsDuration(), l.GetUnit())
	}
	return d
}

// AddLimit adds the result of one rule's limit to a decision whose Allowed and Rule are set. It
// sets the window and the unit if Rule names this rule, and records a denial. A shadow rule denies
// nothing. Each rule must be added once.
func (d *Decision) AddLimit(rule string, allowed, shadow bool, window time.Duration, unit string) {
	if d.Rule != "" && d.Rule == rule {
		d.headedBy(shadow, window, unit)
	}
	if !allowed && !shadow && !d.Allowed {
		d.Violated = append(d.Violated, rule)
	}
}

// headedBy sets what is known of the headline limit. A shadow limit makes no headline.
func (d *Decision) headedBy(shadow bool, window time.Duration, unit string) {
	if shadow {
		d.Rule = ""
		return
	}
	d.Window, d.Unit = window, unit
}

// Answer converts the decision to HTTP, as Of does. now is the time of the decision, by any clock
// that knows the date.
func (d *Decision) Answer(now time.Time, o Options) Answer {
	a := Answer{Status: http.StatusOK, Fields: d.Fields(now, o.Headers)}
	if d.Allowed {
		return a
	}
	a.Status = http.StatusTooManyRequests
	if d.problem() == ReducedCapacity {
		a.Status = http.StatusServiceUnavailable
	}
	if o.DenyStatus != 0 {
		a.Status = o.DenyStatus
	}
	a.body(d.denied(a.Status, now))
	return a
}

// degraded reports whether the region's store did not decide. What remains of the limit is unknown
// then.
func (d *Decision) degraded() bool {
	switch d.Mode {
	case modeEmergency, modeFailOpen, modeFailClosed, modeNoRulesYet:
		return true
	}
	return false
}

// wait returns the time until a retry in whole seconds: never too early, and at least 1.
func (d *Act) wait() int64 { return max(1, seconds(d.RetryAfter)) }

// resetAt returns the Unix second by which the limit is full again.
func (d *Decision) resetAt(now time.Time) int64 {
	at := now.Add(d.ResetAfter)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

func seconds(d time.Duration) int64 { return int64(ceil(d, time.Second) / time.Second) }

// ceil rounds up to a multiple of unit, unless the result would overflow.
func ceil(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 && d <= math.MaxInt64-unit {
		return d - rest + unit
	}
	return d
}
