package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"
)

// Table translates errors to RPC codes, in order: the first entry whose Err is in
// the error's chain decides. It is a daemon's only such translation.
type Table []Entry

// Entry gives one sentinel its code.
type Entry struct {
	Err  error
	Code connect.Code
}

// Error is err as an RPC error with its message kept. nil stays nil and an error
// that already is one stays as it is. A context's end has its usual code, and
// what the table does not know is internal.
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
