package service

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Errors of this package.
var (
	errNoLeader       = errors.New("no leader is known; retry")
	errAnotherLeads   = errors.New("passed on to a coordinator that does not lead; no leader is known; retry")
	errTakingCharge   = errors.New("the new leader is still taking charge of the budgets; retry")
	errStopping       = errors.New("this coordinator is stopping; ask another one")
	errFenced         = errors.New("fenced region")
	errUndeclared     = errors.New("undeclared region")
	errUnknownRule    = errors.New("unknown rule")
	errPlaceWaits     = errors.New("a Hello of the region is being answered; retry")
	errNoPlace        = errors.New("the place is not kept: this leader has not opened the daemon's session, or another daemon of the region has come since")
	errInvalid        = errors.New("invalid request")
	errTooManyWatches = errors.New("too many watches")
)

// errorTable is the only translation of errors to RPC codes in this package.
var errorTable = rpc.Table{
	{Err: errNoLeader, Code: connect.CodeUnavailable},
	{Err: errAnotherLeads, Code: connect.CodeUnavailable},
	{Err: errTakingCharge, Code: connect.CodeUnavailable},
	{Err: leader.ErrLeadershipOver, Code: connect.CodeUnavailable},
	{Err: errStopping, Code: connect.CodeUnavailable},
	{Err: errPlaceWaits, Code: connect.CodeUnavailable},
	{Err: errNoPlace, Code: connect.CodeFailedPrecondition},
	{Err: leader.ErrOverloaded, Code: connect.CodeResourceExhausted},
	{Err: errTooManyWatches, Code: connect.CodeResourceExhausted},
	{Err: plan.ErrBusy, Code: connect.CodeResourceExhausted},
	{Err: leader.ErrConfigChanged, Code: connect.CodeUnavailable},
	{Err: leader.ErrEpochSpent, Code: connect.CodeUnavailable},
	{Err: errUndeclared, Code: connect.CodePermissionDenied},
	{Err: errFenced, Code: connect.CodePermissionDenied},
	{Err: budget.ErrRegionExists, Code: connect.CodeAlreadyExists},
	{Err: budget.ErrUnknownRegion, Code: connect.CodeNotFound},
	{Err: budget.ErrLastRegion, Code: connect.CodeFailedPrecondition},
	{Err: budget.ErrRegionGone, Code: connect.CodeFailedPrecondition},
	{Err: budget.ErrBadWeight, Code: connect.CodeInvalidArgument},
	{Err: budget.ErrBadTiming, Code: connect.CodeInvalidArgument},
	{Err: errUnknownRule, Code: connect.CodeNotFound},
	{Err: rules.ErrNotThere, Code: connect.CodeNotFound},
	{Err: rules.ErrBadEdit, Code: connect.CodeInvalidArgument},
	{Err: errInvalid, Code: connect.CodeInvalidArgument},
	{Err: budget.ErrRegionBusy, Code: connect.CodeAlreadyExists},
	{Err: budget.ErrSessionClosed, Code: connect.CodeFailedPrecondition},
	{Err: budget.ErrSuperseded, Code: connect.CodeAborted},
	{Err: budget.ErrMalformed, Code: connect.CodeInvalidArgument},
	{Err: cluster.ErrUnknownMember, Code: connect.CodeNotFound},
	{Err: cluster.ErrNotRemovable, Code: connect.CodeFailedPrecondition},
	{Err: cluster.ErrRemoved, Code: connect.CodeFailedPrecondition},
	{Err: context.DeadlineExceeded, Code: connect.CodeDeadlineExceeded}, // before the outcome that is unknown by it
	{Err: cluster.ErrUnknownOutcome, Code: connect.CodeUnavailable},
	{Err: cluster.ErrBehind, Code: connect.CodeUnavailable},
	{Err: cluster.ErrNotProved, Code: connect.CodeUnavailable},
	{Err: cluster.ErrShutdown, Code: connect.CodeUnavailable},
	{Err: clusterstate.ErrTooLarge, Code: connect.CodeInvalidArgument},
	{Err: cluster.ErrNotThere, Code: connect.CodeFailedPrecondition},
	{Err: cluster.ErrNodeAlive, Code: connect.CodeAlreadyExists},
	{Err: clusterstate.ErrRolloutUnderWay, Code: connect.CodeFailedPrecondition},
	{Err: clusterstate.ErrNoRollout, Code: connect.CodeFailedPrecondition},
	{Err: clusterstate.ErrNotStageable, Code: connect.CodeFailedPrecondition},
	{Err: clusterstate.ErrNothingInForce, Code: connect.CodeFailedPrecondition},
	{Err: clusterstate.ErrUnknownVersion, Code: connect.CodeNotFound},
	{Err: errNotRestorable, Code: connect.CodeFailedPrecondition},
	{Err: clusterstate.ErrInvalidArgument, Code: connect.CodeInvalidArgument},
}

// toRPC translates an error for the caller. It looks for error types first, then for the values in errorTable.
func toRPC(err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		return refusedRules(bad)
	}
	if conflict, ok := errors.AsType[clusterstate.ErrVersionConflict](err); ok {
		return detailed(connect.NewError(connect.CodeFailedPrecondition, conflict), &aliquotv1.RulesVersionConflict{Expected: conflict.Expected, InForce: conflict.InForce})
	}
	if _, ok := errors.AsType[cluster.ErrNotLeader](err); ok {
		return connect.NewError(connect.CodeUnavailable, errNoLeader)
	}
	return errorTable.Error(err)
}

// refusedRules returns the error for rules that are wrong. Its detail has the places of the problems, so that no client
// has to read them from the text.
func refusedRules(bad *rules.Error) error {
	err := connect.NewError(connect.CodeInvalidArgument, bad)
	all := &aliquotv1.RulesProblems{Omitted: int32(bad.Omitted)}
	for _, p := range bad.Problems {
		all.Problems = append(all.Problems, &aliquotv1.RulesProblem{File: p.File, Line: int32(p.Line), Column: int32(p.Column), Message: p.Message})
	}
	return detailed(err, all)
}

// detailed returns the error with a detail, or without it if a text in the detail is not UTF-8.
func detailed(err *connect.Error, m proto.Message) error {
	if detail, refused := connect.NewErrorDetail(m); refused == nil {
		err.AddDetail(detail)
	}
	return err
}

// reworded returns an RPC error with another text: with the same code and details, and without headers.
func reworded(err *connect.Error, text string) error {
	out := connect.NewError(err.Code(), errors.New(text))
	for _, detail := range err.Details() {
		out.AddDetail(detail)
	}
	return out
}

// invalid returns errInvalid with a reason; its code is invalid_argument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errInvalid, fmt.Sprintf(format, args...))
}
