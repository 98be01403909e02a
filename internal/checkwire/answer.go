package checkwire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Answer is a CheckResponse in plain values. The comments of the message explain the fields. The
// zero value is a denial without a reason.
type Answer struct {
	Allowed    bool
	Never      bool
	RuleID     string
	Limit      int64
	Remaining  int64
	ResetAfter time.Duration
	RetryAfter time.Duration
	Delay      time.Duration
	Mode       string
	Reason     string
	DecisionID string
	Problem    string
	Limits     []Limit
}

// Limit is a LimitDecision in plain values.
type Limit struct {
	Allowed    bool
	Never      bool
	Shadow     bool
	RuleID     string
	Limit      int64
	Remaining  int64
	ResetAfter time.Duration
	RetryAfter time.Duration
	Window     time.Duration
	Delay      time.Duration
	Mode       string
	Algorithm  string
	Unit       string
}

// Reset empties the answer and keeps the memory of its limits.
func (a *Answer) Reset() {
	clear(a.Limits)
	*a = Answer{Limits: a.Limits[:0]}
}

// Message returns the answer as a message. They share only their strings.
func (a *Answer) Message() *aliquotv1.CheckResponse {
	out := &aliquotv1.CheckResponse{
		Allowed: a.Allowed, RuleId: a.RuleID, Limit: a.Limit, Remaining: a.Remaining,
		ResetAfter: durationpb.New(a.ResetAfter), RetryAfter: durationpb.New(a.RetryAfter),
		Mode: a.Mode, Reason: a.Reason, Never: a.Never, DecisionId: a.DecisionID, Delay: durationpb.New(a.Delay),
		Problem: a.Problem,
	}
	if len(a.Limits) > 0 {
		out.Limits = make([]*aliquotv1.LimitDecision, len(a.Limits))
	}
	for i := range a.Limits {
		out.Limits[i] = a.Limits[i].Message()
	}
	return out
}

// Message returns the decision as a message.
func (l *Limit) Message() *aliquotv1.LimitDecision {
	return &aliquotv1.LimitDecision{
		RuleId: l.RuleID, Allowed: l.Allowed, Limit: l.Limit, Remaining: l.Remaining,
		ResetAfter: durationpb.New(l.ResetAfter), RetryAfter: durationpb.New(l.RetryAfter),
		Mode: l.Mode, Never: l.Never, Window: durationpb.New(l.Window), Algorithm: l.Algorithm,
		Delay: durationpb.New(l.Delay), Shadow: l.Shadow, Unit: l.Unit,
	}
}
