package raftnet

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transportLog lowers the level of errors of raft's transport that only say that a connection ended because a node
// stopped, here or at the other end. If that node is still needed, the calling side reports it. A malformed message
// stays an error.
type transportLog struct{ hclog.Logger }

// Error implements hclog.Logger.
func (l transportLog) Error(msg string, args ...any) {
	for _, arg := range args {
		if err, ok := arg.(error); ok && connectionEnded(err) {
			l.Debug(msg, args...)
			return
		}
	}
	l.Logger.Error(msg, args...)
}

// connectionEnded also recognises the errors of the decoder, which have a cause but do not unwrap to it.
func connectionEnded(err error) bool {
	if wrapped, ok := err.(interface{ Cause() error }); ok && wrapped.Cause() != nil {
		err = wrapped.Cause()
	}
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, raft.ErrTransportShutdown,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
