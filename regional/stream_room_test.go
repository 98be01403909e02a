package regional

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"aliquot/internal/testmetrics"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestWhoDoesNotReadMakesRoom: a client that sends and does not read has its stream ended
// once there is no room left for others, is told why if it reads at last, and the others are
// answered.
func TestWhoDoesNotReadMakesRoom(t *testing.T) {
	t.Parallel()
	c := testConfig(newLeader(t, roomyRule).address())
	c.streamMemory = 1 << 20 // the rest is taken by others that are well
	d, _ := startLive(t, c)
	ended := 0
	hardOfHearing(t, d, func(t *testing.T, deaf checkStream) {
		large := &aliquotv1.CheckStreamRequest{}
		for i := range 1000 {
			large.Requests = append(large.Requests, ask1(uint64(i), "deaf"))
		}
		waits := func() float64 { return testmetrics.Counter(t, d.registry, "aliquot_stream_waits_total") }
		before := waits()
		go func() {
			for deaf.Send(large) == nil { // until the stream has ended
			}
		}()
		eventually(t, "there is no room", func() bool { return waits() > before })
		other, err := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).CheckStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(20) {
			if err := other.Send(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{ask1(i, "other")}}); err != nil {
				t.Fatal(err)
			}
			if out, err := other.Recv(); err != nil || out.GetAnswers()[0].GetId() != i {
				t.Fatalf("%v, %v", out, err)
			}
		}
		ended++
		eventually(t, "the stream has ended", func() bool {
			return strings.Contains(scrape(t, d), fmt.Sprintf("aliquot_streams_ended_total{reason=\"unread\"} %d\n", ended))
		})
		eventually(t, "its room is free", func() bool { return strings.Contains(scrape(t, d), "\naliquot_stream_bytes 0\n") })
		for err == nil {
			_, err = deaf.Recv()
		}
		if _, resets := deaf.(overConnect); !resets && status.Code(err) != codes.ResourceExhausted || errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
}

// hardOfHearing is streams for clients that take 64 KiB and no more if they do not read.
func hardOfHearing(t *testing.T, d *Daemon, test func(t *testing.T, s checkStream)) {
	t.Run("gRPC", func(t *testing.T) {
		s, err := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).CheckStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
	t.Run("Connect", func(t *testing.T) {
		client := h2c()
		client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		defer client.CloseIdleConnections()
		s, err := aliquotv1connect.NewLimiterServiceClient(client, "http://"+d.Addr(), connect.WithAcceptCompression("gzip", nil, nil)).CheckStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		test(t, overConnect{s})
	})
}
