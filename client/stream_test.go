package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"aliquot/client"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// streamStand is a region that is asked over streams. It answers each message backwards,
// and names the key of a request as its rule.
type streamStand struct {
	aliquotv1.UnimplementedLimiterServiceServer
	streams, messages, requests atomic.Int64
	// answer may hold up, or end, a stream.
	answer func(*aliquotv1.CheckStreamRequest) error
}

func (s *streamStand) CheckStream(stream grpc.BidiStreamingServer[aliquotv1.CheckStreamRequest, aliquotv1.CheckStreamResponse]) error {
	s.streams.Add(1)
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		s.messages.Add(1)
		s.requests.Add(int64(len(in.GetRequests())))
		if s.answer != nil {
			if err := s.answer(in); err != nil {
				return err
			}
		}
		out := &aliquotv1.CheckStreamResponse{}
		for _, r := range slices.Backward(in.GetRequests()) {
			a := &aliquotv1.StreamedAnswer{Id: r.GetId()}
			switch key := r.GetRequest().GetAttributes()["api_key"]; key {
			case "invalid":
				a.Error, a.Code = "no such request", uint32(codes.InvalidArgument)
			default:
				a.Response = &aliquotv1.CheckResponse{Allowed: true, RuleId: key, Mode: "store"}
			}
			out.Answers = append(out.Answers, a)
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// serveStreams listens on a unix socket, and returns its address.
func serveStreams(t *testing.T, s *streamStand) (address string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "g.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	aliquotv1.RegisterLimiterServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return "unix://" + path, server.Stop
}

// TestStreamed: everybody gets the answer to what they asked, over one stream.
func TestStreamed(t *testing.T) {
	s := &streamStand{}
	address, _ := serveStreams(t, s)
	c := newClient(t, client.Options{Stream: address, Timeout: patient})
	var wg sync.WaitGroup
	const callers, each = 50, 40
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				key := fmt.Sprint(i, "/", j)
				if out, err := c.Check(t.Context(), keyed(key)); err != nil || out.GetRuleId() != key || out.GetMode() != "store" {
					t.Errorf("%s: %v, %v", key, out, err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := c.Check(t.Context(), keyed("invalid")); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if n := s.streams.Load(); n != 1 {
		t.Errorf("%d streams", n)
	}
	if n := s.requests.Load(); n != callers*each+1 || s.messages.Load() > n {
		t.Errorf("%d requests in %d messages", n, s.messages.Load())
	}
}

// TestStreamedRequestsTravelTogether: what is asked while nothing can be sent goes out in
// few messages.
func TestStreamedRequestsTravelTogether(t *testing.T) {
	held, holding := make(chan struct{}), make(chan struct{}, 1)
	s := &streamStand{}
	s.answer = func(in *aliquotv1.CheckStreamRequest) error {
		if in.GetRequests()[0].GetRequest().GetAttributes()["api_key"] == "first" {
			holding <- struct{}{}
			<-held
		}
		return nil
	}
	address, _ := serveStreams(t, s)
	c := newClient(t, client.Options{Stream: address, Timeout: patient})
	var wg sync.WaitGroup
	wg.Go(func() { c.Check(t.Context(), keyed("first")) })
	<-holding
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := c.Check(ctx, keyed("gone"))
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	for i := range 100 {
		wg.Go(func() {
			if out, err := c.Check(t.Context(), keyed(fmt.Sprint(i))); err != nil || out.GetRuleId() != fmt.Sprint(i) {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
	close(held)
	wg.Wait()
}

// TestStreamedWithoutTheRegion: a stream that ends fails what was on it, the fallback
// decides, and the next stream is opened by itself.
func TestStreamedWithoutTheRegion(t *testing.T) {
	var broken atomic.Bool
	s := &streamStand{}
	s.answer = func(*aliquotv1.CheckStreamRequest) error {
		if broken.Swap(false) {
			return status.Error(codes.Unavailable, "stopping")
		}
		return nil
	}
	address, stop := serveStreams(t, s)
	c := newClient(t, client.Options{Stream: address, Timeout: patient, Fallback: client.FailClosed})
	mode := func() string {
		t.Helper()
		out, err := c.Check(t.Context(), keyed("k"))
		if err != nil {
			t.Fatal(err)
		}
		return out.GetMode()
	}
	if got := mode(); got != "store" {
		t.Fatalf("at first: %s", got)
	}
	broken.Store(true)
	if got := mode(); got != "fail_closed" {
		t.Errorf("as the stream ended: %s", got)
	}
	if got := mode(); got != "store" || s.streams.Load() != 2 {
		t.Errorf("afterwards: %s, %d streams", got, s.streams.Load())
	}
	stop()
	if got := mode(); got != "fail_closed" {
		t.Errorf("without the region: %s", got)
	}
	c.Close()
	if got := mode(); got != "fail_closed" {
		t.Errorf("closed: %s", got)
	}
}

// TestARequestThatCannotBeSentHarmsNobody: it is refused, rather than decided by the
// fallback, and what others ask over the same stream is answered.
func TestARequestThatCannotBeSentHarmsNobody(t *testing.T) {
	held, holding := make(chan struct{}), make(chan struct{}, 1)
	s := &streamStand{answer: func(*aliquotv1.CheckStreamRequest) error { holding <- struct{}{}; <-held; return nil }}
	address, _ := serveStreams(t, s)
	overStream := newClient(t, client.Options{Stream: address, Timeout: patient})
	other := make(chan string, 1)
	go func() {
		out, _ := overStream.Check(t.Context(), keyed("other"))
		other <- out.GetMode()
	}()
	<-holding
	for name, c := range map[string]*client.Client{"a stream": overStream, "calls": newClient(t, client.Options{Address: standIn(100), Timeout: patient})} {
		for _, in := range []*aliquotv1.CheckRequest{
			{Attributes: map[string]string{"agent": "\xff"}}, {Attributes: map[string]string{"\xff": "a"}}, {Namespace: "\xff"},
			{Costs: map[string]int64{"\xff": 1}}, {Attributes: map[string]string{"agent": strings.Repeat("v", 5<<20)}},
		} {
			if out, err := c.Check(t.Context(), in); !errors.Is(err, client.ErrInvalid) {
				t.Errorf("%s: %v, %v", name, out, err)
			}
		}
	}
	close(held)
	if mode := <-other; mode != "store" || s.streams.Load() != 1 {
		t.Errorf("another request on the stream was decided by %q, over %d streams", mode, s.streams.Load())
	}
}

// TestStreamedCallerThatDoesNotWait gets its own error, and the others their answers.
func TestStreamedCallerThatDoesNotWait(t *testing.T) {
	address, _ := serveStreams(t, &streamStand{answer: func(*aliquotv1.CheckStreamRequest) error { <-t.Context().Done(); return nil }})
	c := newClient(t, client.Options{Stream: address, Timeout: 20 * time.Millisecond, Fallback: client.FailOpen})
	if out, err := c.Check(t.Context(), keyed("k")); err != nil || out.GetMode() != "fail_open" {
		t.Errorf("%v, %v", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Check(ctx, keyed("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
