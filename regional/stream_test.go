package regional

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// checkStream is a stream as a test has it, whatever carries it.
type checkStream interface {
	Send(*aliquotv1.CheckStreamRequest) error
	Recv() (*aliquotv1.CheckStreamResponse, error)
	CloseSend() error
}

// overConnect gives Connect's streams gRPC's names.
type overConnect struct {
	*connect.BidiStreamForClientSimple[aliquotv1.CheckStreamRequest, aliquotv1.CheckStreamResponse]
}

func (o overConnect) Recv() (*aliquotv1.CheckStreamResponse, error) {
	out, err := o.Receive()
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return out, err
}
func (o overConnect) CloseSend() error { return o.CloseRequest() }

// streams runs a test over gRPC, and over Connect with both codecs, each in a bubble with a daemon of these rules.
func streams(t *testing.T, rules string, test func(t *testing.T, s checkStream)) {
	run := func(name string, open func(t *testing.T, d *Daemon) (checkStream, error)) {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				d, _ := startLive(t, testConfig(newLeader(t, rules).address()))
				s, err := open(t, d)
				if err != nil {
					t.Fatal(err)
				}
				test(t, s)
			})
		})
	}
	run("gRPC", func(t *testing.T, d *Daemon) (checkStream, error) {
		return aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).CheckStream(t.Context())
	})
	for name, codec := range map[string]connect.ClientOption{"Connect": connect.WithClientOptions(), "JSON": connect.WithProtoJSON()} {
		run(name, func(t *testing.T, d *Daemon) (checkStream, error) {
			s, err := aliquotv1connect.NewLimiterServiceClient(h2cIn(t), "http://"+d.Addr(), codec).CheckStream(t.Context())
			return overConnect{s}, err
		})
	}
}

// h2cIn is a client like h2c in the network of a test.
func h2cIn(t *testing.T) *http.Client {
	client := h2c()
	client.Transport.(*http.Transport).DialContext = networkOf(t).dial
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func ask1(id uint64, apiKey string) *aliquotv1.StreamedCheck {
	return &aliquotv1.StreamedCheck{Id: id, Request: &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": apiKey}}}
}

// TestStream: every request of every message is answered once, by its id, and the limit
// holds; what is invalid does not spoil its neighbours.
func TestStream(t *testing.T) {
	streams(t, "rules: [{id: r0, local_cache: false, params: {capacity: 10, refill_rate: 0.0001}}]", func(t *testing.T, s checkStream) {
		const messages, each = 40, 6
		go func() {
			for m := range messages {
				in := &aliquotv1.CheckStreamRequest{}
				for i := range each - 1 {
					in.Requests = append(in.Requests, ask1(uint64(m*each+i), fmt.Sprint(t.Name(), i)))
				}
				bad := ask1(uint64(m*each+each-1), "k")
				bad.Request.Cost = proto.Int64(0)
				in.Requests = append(in.Requests, bad)
				if err := s.Send(in); err != nil {
					t.Error(err)
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
		}()
		seen := map[uint64]bool{}
		allowed := map[uint64]int{}
		for {
			out, err := s.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range out.GetAnswers() {
				if id := a.GetId(); seen[id] || (id%each == each-1) != (a.GetError() != "" && codes.Code(a.GetCode()) == codes.InvalidArgument) || (a.GetError() != "") == (a.GetResponse() != nil) {
					t.Errorf("answer %v", a)
				}
				seen[a.GetId()] = true
				if a.GetResponse().GetAllowed() {
					allowed[a.GetId()%each]++
				}
			}
		}
		if len(seen) != messages*each {
			t.Errorf("%d answers of %d", len(seen), messages*each)
		}
		for i := range uint64(each - 1) {
			if allowed[i] != 10 {
				t.Errorf("key %d: %d of 10 allowed", i, allowed[i])
			}
		}
	})
}

// TestStreamEndsAtWhatIsNoBatch with the same error as CheckBatch has.
func TestStreamEndsAtWhatIsNoBatch(t *testing.T) {
	streams(t, oneRule, func(t *testing.T, s checkStream) {
		// The daemon can answer before all of the message has left: Send says io.EOF then,
		// and the reason is what Recv returns.
		if err := s.Send(&aliquotv1.CheckStreamRequest{}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, err := s.Recv()
		if code := connect.CodeOf(err); code != connect.CodeInvalidArgument && status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v", err)
		}
	})
}

// TestStreamEndsWithTheDaemon: what was asked is answered, and then the stream ends as
// unavailable; the daemon does not wait for clients that would go on.
func TestStreamEndsWithTheDaemon(t *testing.T) {
	d, stop := startLive(t, testConfig(newLeader(t, oneRule).address()))
	s, err := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).CheckStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{ask1(7, "k")}}); err != nil {
		t.Fatal(err)
	}
	out, err := s.Recv()
	if err != nil || len(out.GetAnswers()) != 1 || out.GetAnswers()[0].GetId() != 7 || !out.GetAnswers()[0].GetResponse().GetAllowed() {
		t.Fatalf("%v, %v", out, err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	select {
	case <-stopped:
	case <-time.After(drainFor - 500*time.Millisecond):
		t.Error("the daemon waits for a stream")
	}
	<-stopped
}

// TestStreamOutlivesTheReadTimeout of the HTTP server, which is for calls.
func TestStreamOutlivesTheReadTimeout(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
		const timeout = time.Second
		l := networkOf(t).listen()
		server := newHTTPServer(d.service.HTTP(), d.log)
		server.ReadTimeout = timeout
		go server.Serve(l)
		defer server.Close()
		s, err := aliquotv1connect.NewLimiterServiceClient(h2cIn(t), "http://"+l.addr.String()).CheckStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for n := uint64(1); time.Since(began) < 2*timeout; n++ {
			if err := s.Send(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{ask1(n, "k")}}); err != nil {
				t.Fatal(err)
			}
			if out, err := s.Receive(); err != nil || out.GetAnswers()[0].GetId() != n {
				t.Fatalf("after %v: %v, %v", time.Since(began), out, err)
			}
			<-time.After(timeout / 10) // of the bubble's clock
		}
		if err := s.CloseRequest(); err != nil {
			t.Error(err)
		}
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
}
