package raftnet

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transportLog demotes what raft's transport reports as an error and is none: that
// a connection ended because a node stopped, here or at the other end. Whoever
// still needs that node says so itself, on the side that calls. What a peer really
// sent wrong stays an error.
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

// connectionEnded sees through the decoder's errors too, which have a cause but do
// not unwrap to it.
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
