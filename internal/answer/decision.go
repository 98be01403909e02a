package answer

import (
	"math"
	"net/http"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Act is what of a decision a client is to act on, or an operator to ask about. Its
// headers belong to neither family, and an ordinary request that passes has none.
type Act struct {
	Allowed, Never    bool
	DecisionID        string
	Delay, RetryAfter time.Duration
	// Problem names the problem type of a denial, as regions name it; empty is QuotaExceeded.
	Problem string
}

// Decision is a decision in plain values, as far as HTTP tells of it. The zero value is a
// denial that names no limit.
type Decision struct {
	Act
	Mode string
	// Limit, Remaining and ResetAfter are those of the rule that makes the headline.
	Limit, Remaining int64
	ResetAfter       time.Duration
	// Rule makes the headline; empty when no limit was asked, or only some that watch. Unit
	// and Window are what it counts and over which time; empty and 0 where not known.
	Rule, Unit string
	Window     time.Duration
	// Violated are the rules that denied it; of what is allowed it is not read.
	Violated []string
}

// decisionOf is a message in plain values.
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

// AddLimit adds what one rule's limit said to a decision whose Allowed and Rule are set: the
// window and the unit of the one that Rule names, and who denied. A shadow rule denies
// nothing. Each rule is added once.
func (d *Decision) AddLimit(rule string, allowed, shadow bool, window time.Duration, unit string) {
	if d.Rule != "" && d.Rule == rule {
		d.headedBy(shadow, window, unit)
	}
	if !allowed && !shadow && !d.Allowed {
		d.Violated = append(d.Violated, rule)
	}
}

// headedBy says what is known of the limit that Rule names. One that only watches makes no
// headline.
func (d *Decision) headedBy(shadow bool, window time.Duration, unit string) {
	if shadow {
		d.Rule = ""
		return
	}
	d.Window, d.Unit = window, unit
}

// Answer puts the decision, made at now (any clock that says the date), into HTTP, as Of
// does.
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

// degraded: the region's store did not decide, and what remains is not known.
func (d *Decision) degraded() bool {
	switch d.Mode {
	case modeEmergency, modeFailOpen, modeFailClosed, modeNoRulesYet:
		return true
	}
	return false
}

// wait is in whole seconds, never early and never at once.
func (d *Act) wait() int64 { return max(1, seconds(d.RetryAfter)) }

// resetAt is the Unix second by which the limit is whole again.
func (d *Decision) resetAt(now time.Time) int64 {
	at := now.Add(d.ResetAfter)
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
