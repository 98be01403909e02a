package api

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/peer"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/overload"
)

// oneConn is a listener that has accepted one connection.
type oneConn struct {
	net.Listener
	conn net.Conn
}

func (l oneConn) Accept() (net.Conn, error) { return l.conn, nil }

// TestWhatIsNotDecidedIsNoDenial: the answers of a connection are delayed from the second denial in a row on. Two
// requests of a stream that get no turn are none. Two that their rule denies are.
func TestWhatIsNotDecidedIsNoDenial(t *testing.T) {
	s, delayed := serviceOf(t, "defaults: {enforcement: independent}\nrules: [{id: r0, params: {capacity: 1, refill_rate: 0.001}}]\n"), 0
	s.throttle = overload.NewThrottle(1, func(string) bool { return false }, func(context.Context, time.Duration) bool { delayed++; return true }, s.metrics, discard)
	s.door = overload.NewDoor(1, s.metrics.Overload)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	conn, err := s.throttle.Listener(oneConn{conn: here}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: conn.RemoteAddr()})
	ask := func() {
		x := &rawCall{kind: streamed}
		x.take(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{ask1(1, "k")}})
		if err := s.serve(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	turns := 0
	for one, err := s.door.Enter(t.Context()); err == nil; one, err = s.door.Enter(t.Context()) {
		turns += one
	}
	for range 2 {
		ask()
	}
	if delayed != 0 {
		t.Errorf("%d answers without a decision are delayed", delayed)
	}
	s.door.Leave(turns)
	for range 3 { // the first one is admitted
		ask()
	}
	if delayed != 1 {
		t.Errorf("%d answers are delayed after two denials", delayed)
	}
}
