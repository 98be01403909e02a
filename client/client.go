// Package client asks a region of Aliquot whether requests may pass, from a service in
// Go: Client for any request, Middleware for those that come over HTTP.
package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// DefaultAddress is where a regional daemon listens by itself.
	DefaultAddress = "127.0.0.1:7500"
	// DefaultTimeout leaves room for a check that waits for what other regions lend (half a
	// second at the most where the rule does not say otherwise) and then for the region's
	// store (100 ms).
	DefaultTimeout = 750 * time.Millisecond
	// tripAfter failures in a row the region is not asked for restAfter, so that a
	// daemon that hangs does not cost every request the timeout.
	tripAfter = 5
	restAfter = time.Second
	// maxIdle connections are kept for the next calls.
	maxIdle = 256
	// closedRetry is the wait told by FailClosed.
	closedRetry = restAfter
)

// How a request was decided while the region did not answer, as answers name it.
const (
	modeLocal  = "emergency"
	modeOpen   = "fail_open"
	modeClosed = "fail_closed"
)

// ErrInvalid is wrapped when the region refused a request as invalid: no such request
// can be decided, whatever the region's state.
var ErrInvalid = errors.New("client: invalid request")

// Fallback is what decides while the region does not answer in time.
type Fallback uint8

const (
	// FailOpen lets everything pass: an outage of the limiter is none of the service.
	// It is the zero value.
	FailOpen Fallback = iota
	// FailClosed denies everything: for what must never be exceeded, at any price.
	FailClosed
	// FailLocal counts in this process, by Options.Local: something between the two,
	// for each process by itself.
	FailLocal
)

// Options of a Client. The zero value asks a daemon on this machine and fails open.
type Options struct {
	// Address is the regional daemon's: host:port, a URL, or unix:///path of its socket;
	// empty: DefaultAddress.
	Address string
	// Stream is the address of the daemon's gRPC listener, host:port or unix:///path: checks
	// go there over one stream, many in one message, which takes far less of both processes
	// where there are thousands a second. Address and HTTPClient are of no use then. Empty:
	// each check is a call of its own.
	Stream string
	// Timeout bounds one call, connecting included; 0: DefaultTimeout.
	Timeout time.Duration
	// Fallback decides while the region does not answer.
	Fallback Fallback
	// Local is the limit of FailLocal, for each client and process.
	Local LocalLimit
	// OnFailure is told why the region did not decide a request, for a log or a metric;
	// it must be quick. It may be called by many goroutines at once. nil: nobody is told.
	OnFailure func(error)
	// HTTPClient makes the calls; nil: one of the Client's own, with a pool of
	// connections that all its calls share.
	HTTPClient *http.Client
}

// Client asks one regional daemon. Make one for a process and share it; it is safe for
// concurrent use.
type Client struct {
	options Options
	own     *http.Client // to close; nil: the caller's
	calls   checker
	stream  *streamed // nil: each check is a call of its own
	breaker *gobreaker.CircuitBreaker[*aliquotv1.CheckResponse]
	local   *local
}

// checker decides requests for a Client.
type checker interface {
	Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error)
}

// New makes a client; it does not connect yet.
func New(o Options) (*Client, error) {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	path, unix := rpc.UnixPath(o.Address)
	own, base := rpc.ClientOf(o.Address)
	switch err := rpc.CheckUnix(path); {
	case !unix:
	case err != nil:
		return nil, fmt.Errorf("client: address %s: %w", o.Address, err)
	case o.HTTPClient != nil:
		return nil, fmt.Errorf("client: address %s: an HTTPClient of your own dials by itself; leave one of the two out", o.Address)
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("client: address %q: give host:port, an http:// or https:// URL, or unix:///path", o.Address)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	c := &Client{options: o}
	switch {
	case o.Timeout < 0:
		return nil, fmt.Errorf("client: timeout %v: give a time above 0", o.Timeout)
	case o.Fallback > FailLocal:
		return nil, fmt.Errorf("client: there is no fallback %d", o.Fallback)
	case o.Fallback == FailLocal:
		var err error
		if c.local, err = newLocal(o.Local); err != nil {
			return nil, err
		}
	}
	if c.options.HTTPClient == nil {
		c.own = widened(own)
		c.options.HTTPClient = c.own
	}
	c.calls = aliquotv1connect.NewLimiterServiceClient(c.options.HTTPClient, base)
	if o.Stream != "" {
		var err error
		if c.stream, err = newStreamed(o.Stream); err != nil {
			return nil, err
		}
		c.calls, c.options.Address = c.stream, o.Stream
	}
	c.breaker = gobreaker.NewCircuitBreaker[*aliquotv1.CheckResponse](gobreaker.Settings{
		Name:        o.Address,
		Timeout:     restAfter,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
		// A request that is invalid, or that too many rules match, says nothing about the
		// others, nor does a caller that goes away.
		IsSuccessful: func(err error) bool { return err == nil || refused(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errGone) },
	})
	return c, nil
}

// refused tells an answer of the region's about one request from the lack of one.
func refused(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition:
		return true
	}
	return false
}

// widened makes a client's pool wide enough that a busy service does not dial again for
// every other call.
func widened(c *http.Client) *http.Client {
	if t, ok := c.Transport.(*http.Transport); ok {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle
	}
	return c
}

// Close drops idle connections, and ends the stream.
func (c *Client) Close() {
	if c.stream != nil {
		_ = c.stream.Close()
	}
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// errGone: the caller's context ended first.
var errGone = errors.New("client: the caller is gone")

// Check decides one request, which is counted. A denial is an answer, not an error, and
// so is what Fallback decides while the region does not: the answer's mode is emergency,
// fail_open or fail_closed then, and its reason says what happened. The error is ErrInvalid,
// or ctx's own when that ended first. The request is the caller's again when Check returns.
func (c *Client) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	if err := sendable(in); err != nil {
		return nil, err
	}
	out, err := c.breaker.Execute(func() (*aliquotv1.CheckResponse, error) { return c.ask(ctx, in) })
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errGone):
		return nil, err
	case connect.CodeOf(err) == connect.CodeInvalidArgument:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	err = fmt.Errorf("client: the region at %s did not decide: %w", c.options.Address, err)
	if c.options.OnFailure != nil {
		c.options.OnFailure(err)
	}
	return c.fallBack(in, err), nil
}

func (c *Client) ask(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	call, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	out, err := c.calls.Check(call, in)
	if gone := gone(ctx, call, err); gone != nil {
		return nil, fmt.Errorf("%w: %w", errGone, gone)
	}
	return out, err
}

// gone is why the caller's own context ended a call; nil if it did not. The region may
// be ahead of this process in seeing the caller's deadline pass.
func gone(caller, call context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		return caller.Err()
	}
	callers, bounded := caller.Deadline()
	first, _ := call.Deadline()
	if bounded && first.Equal(callers) && connect.CodeOf(err) == connect.CodeDeadlineExceeded {
		return context.DeadlineExceeded
	}
	return nil
}

// fallBack decides without the region.
func (c *Client) fallBack(in *aliquotv1.CheckRequest, cause error) *aliquotv1.CheckResponse {
	out := &aliquotv1.CheckResponse{Remaining: -1, ResetAfter: durationpb.New(0), RetryAfter: durationpb.New(0), Reason: "degraded: " + cause.Error()}
	switch c.options.Fallback {
	case FailClosed:
		out.Mode, out.RetryAfter = modeClosed, durationpb.New(closedRetry)
	case FailLocal:
		out.Mode = modeLocal
		c.local.decide(in, out)
	default:
		out.Mode, out.Allowed = modeOpen, true
	}
	return out
}
