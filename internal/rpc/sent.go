package rpc

import (
	"errors"
	"net"
)

// NotSent reports whether an error shows that no byte of a request was sent, because there was no connection.
func NotSent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}
