package rpc

import (
	"errors"
	"io"
	"net"
	"os"

	"connectrpc.com/connect"
)

// errSlowBody is a request of which the server has waited for the rest for as long as it does.
var errSlowBody = errors.New("the request's body did not come in time")

// QuietBody is a request's body whose errors say what is wrong without the addresses of the
// connection: they go into answers, where a proxy's and a server's own have no place.
func QuietBody(of io.ReadCloser) io.ReadCloser { return quietBody{of} }

type quietBody struct{ io.ReadCloser }

// Read is for io.Reader.
func (b quietBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, connect.NewError(connect.CodeDeadlineExceeded, errSlowBody)
	}
	if of, ok := errors.AsType[*net.OpError](err); ok {
		return n, of.Err
	}
	return n, err
}
