package rpc

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect"
)

// TestQuietBody: what fails on a connection is told without where it leads; all else as it is.
func TestQuietBody(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 77}
	on := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Source: address, Addr: address, Err: err}
	}
	for _, c := range []struct {
		err  error
		want error
		code connect.Code
	}{
		{on(os.ErrDeadlineExceeded), errSlowBody, connect.CodeDeadlineExceeded},
		{on(os.NewSyscallError("read", syscall.ECONNRESET)), syscall.ECONNRESET, connect.CodeUnknown},
		{io.ErrUnexpectedEOF, errBody, connect.CodeInvalidArgument},
		{ErrNoMemory, ErrNoMemory, connect.CodeResourceExhausted},
	} {
		_, err := io.ReadAll(QuietBody(io.NopCloser(iotest.ErrReader(c.err))))
		if !errors.Is(err, c.want) || connect.CodeOf(err) != c.code || strings.Contains(err.Error(), "192.0.2.1") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if all, err := io.ReadAll(QuietBody(io.NopCloser(strings.NewReader("whole")))); string(all) != "whole" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
}
