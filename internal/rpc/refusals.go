package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// Refusals makes the refusals of connect and of net/http clear to a client that sends JSON over plain
// HTTP. An unknown path, a wrong method and a wrong content type get a body that says what to do. A
// message above the limit of a handler is 413, and not the 429 of its code resource_exhausted, which
// a client takes for a rate limit. Handlers below it must have the option Received. Calls of
// generated clients pass unchanged: they read the code.
func Refusals(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if generated(r.Header.Get("Content-Type")) {
			next.ServeHTTP(w, r)
			return
		}
		call := &plainCall{ResponseWriter: w, request: r}
		next.ServeHTTP(call, r.WithContext(context.WithValue(r.Context(), plainCallKey{}, call)))
	})
}

// generated reports whether a content type is one that generated clients send, or one of a stream.
func generated(contentType string) bool {
	return contentType == "application/proto" || strings.HasPrefix(contentType, "application/grpc") || strings.HasPrefix(contentType, "application/connect+")
}

// Received is the option of handlers below Refusals. It tells a message that was not read from one
// that the handler refused.
func Received() connect.HandlerOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			keepStatus(ctx)
			return next(ctx, req)
		}
	}))
}

// plainCallKey is the key of a request's plainCall in its context.
type plainCallKey struct{}

// plainCall writes the answer to one request.
type plainCall struct {
	http.ResponseWriter
	request *http.Request
	// kept: a 429 of this call is one.
	kept bool
	// replaced: what the handler writes is not sent.
	replaced bool
}

// keepStatus says that a 429 of the call of ctx does not mean that its message is too large.
func keepStatus(ctx context.Context) {
	if call, ok := ctx.Value(plainCallKey{}).(*plainCall); ok {
		call.kept = true
	}
}

// WriteHeader implements http.ResponseWriter.
func (c *plainCall) WriteHeader(status int) {
	kind := c.Header().Get("Content-Type")
	if status == http.StatusTooManyRequests && kind == "application/json" && !c.kept {
		status = http.StatusRequestEntityTooLarge
	}
	code, why := c.refusal(status)
	if why == "" || kind != "" && !strings.HasPrefix(kind, "text/plain") {
		c.ResponseWriter.WriteHeader(status)
		return
	}
	c.replaced = true
	c.Header().Set("Content-Type", "application/json")
	c.ResponseWriter.WriteHeader(status)
	_ = json.NewEncoder(c.ResponseWriter).Encode(map[string]string{"code": code.String(), "message": why}) // it fails if the client has gone
}

// refusal returns the code of a bare status, and what is wrong and what to do. Other statuses have
// no text.
func (c *plainCall) refusal(status int) (code connect.Code, why string) {
	switch status {
	case http.StatusNotFound:
		return connect.CodeUnimplemented, fmt.Sprintf("there is nothing at %.100q; GET / says what there is", c.request.URL.Path)
	case http.StatusMethodNotAllowed:
		return connect.CodeUnimplemented, fmt.Sprintf("%.20q is not answered at this path; use %s", c.request.Method, c.Header().Get("Allow"))
	case http.StatusUnsupportedMediaType:
		if !strings.Contains(c.Header().Get("Accept-Post"), "application/json") {
			return connect.CodeInvalidArgument, "this method is a stream; call it with a client of Connect or gRPC"
		}
		return connect.CodeInvalidArgument, fmt.Sprintf("the Content-Type %.60q is not one that is read here; send JSON with the header 'Content-Type: application/json'",
			c.request.Header.Get("Content-Type"))
	}
	return 0, ""
}

// Write implements http.ResponseWriter.
func (c *plainCall) Write(p []byte) (int, error) {
	if c.replaced {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *plainCall) Unwrap() http.ResponseWriter { return c.ResponseWriter }
