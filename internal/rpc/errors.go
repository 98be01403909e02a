package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"
)

// Table translates errors to RPC codes. The first entry whose Err is in the error's chain decides.
// A daemon has only one such table.
type Table []Entry

// Entry gives one sentinel its code.
type Entry struct {
	Err  error
	Code connect.Code
}

// Error returns err as an RPC error with the same message. nil stays nil, and an RPC error stays
// unchanged. The end of a context has its usual code. An error that is not in the table is
// internal.
func (t Table) Error(err error) error {
	if err == nil {
		return nil
	}
	if rpcErr, ok := errors.AsType[*connect.Error](err); ok {
		return rpcErr
	}
	return connect.NewError(t.code(err), err)
}

func (t Table) code(err error) connect.Code {
	for _, e := range t {
		if errors.Is(err, e.Err) {
			return e.Code
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	}
	return connect.CodeInternal
}
