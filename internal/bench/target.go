package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// target is one region's daemon. Safe for concurrent use.
type target struct {
	address string
	check   func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error)
	batch   func(context.Context, *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error)
	close   func()
}

// dialTargets prepares the regions' clients; nothing is connected yet.
func dialTargets(c *Config) ([]*target, error) {
	dial := dialTarget
	if c.dial != nil {
		dial = c.dial
	}
	var out []*target
	for _, address := range c.Regions {
		t, err := dial(c, address)
		if err != nil {
			closeTargets(out)
			return nil, fmt.Errorf("--regions: %s: %w", address, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func dialTarget(c *Config, address string) (*target, error) {
	if c.Protocol == GRPC {
		return dialGRPC(address)
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: c.Timeout}).DialContext,
		MaxIdleConnsPerHost: c.workers(),
		DisableCompression:  true,
	}
	client := aliquotv1connect.NewLimiterServiceClient(&http.Client{Transport: transport}, rpc.BaseURL(address))
	return &target{address: address, check: client.Check, batch: client.CheckBatch, close: transport.CloseIdleConnections}, nil
}

func dialGRPC(address string) (*target, error) {
	address = strings.TrimPrefix(address, "http://")
	// A restarted daemon should be found again at once, not after gRPC's default
	// of seconds.
	retry := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}))
	if err != nil {
		return nil, err
	}
	client := aliquotv1.NewLimiterServiceClient(conn)
	return &target{
		address: address,
		check: func(ctx context.Context, r *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
			return client.Check(ctx, r)
		},
		batch: func(ctx context.Context, r *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
			return client.CheckBatch(ctx, r)
		},
		close: func() { conn.Close() },
	}, nil
}

func closeTargets(ts []*target) {
	for _, t := range ts {
		t.close()
	}
}

// send calls with one request as Check, with several as CheckBatch. The answers
// are in the requests' order.
func (t *target) send(ctx context.Context, requests []*aliquotv1.CheckRequest) ([]*aliquotv1.CheckResponse, error) {
	if len(requests) == 1 {
		answer, err := t.check(ctx, requests[0])
		return []*aliquotv1.CheckResponse{answer}, err
	}
	answer, err := t.batch(ctx, &aliquotv1.CheckBatchRequest{Requests: requests})
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(requests) {
		return nil, fmt.Errorf("%d answers to %d requests", len(answer.Results), len(requests))
	}
	out := make([]*aliquotv1.CheckResponse, len(requests))
	for i, r := range answer.Results {
		if r.Error != "" || r.Response == nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New(r.Error))
		}
		out[i] = r.Response
	}
	return out, nil
}

// kind names an error's sort, for counting.
func kind(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return connect.CodeOf(err).String()
}
