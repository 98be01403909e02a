package rpc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"
)

// errBody: a request's body does not match its framing, because a chunk has no length or the body
// is cut off.
var errBody = errors.New("the request's body cannot be read; send its whole length, or well-formed chunks")

// errSlowBody: the rest of a request did not arrive within the server's read timeout.
var errSlowBody = errors.New("the request's body did not come in time")

// WithBody returns a copy of a request with another body, which wraps the request's own. The request
// itself keeps its body: net/http checks it after the answer, and ends the connection if it was
// malformed. With another body in it, net/http would serve the rest of a malformed body as further
// requests.
func WithBody(r *http.Request, body io.ReadCloser) *http.Request {
	other := *r
	other.Body = body
	return &other
}

// QuietBody wraps a request's body. Its errors tell what is wrong without the addresses of the
// connection: they go into answers, which must not show a proxy's or a server's address.
func QuietBody(of io.ReadCloser) io.ReadCloser { return quietBody{of} }

type quietBody struct{ io.ReadCloser }

// Read implements io.Reader.
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
	if _, coded := errors.AsType[*connect.Error](err); coded || errors.Is(err, net.ErrClosed) {
		return n, err
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return n, err
	}
	return n, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%w (%w)", errBody, err))
}
