package raftnet

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"
)

// TestSilentCallersTakeNoPlaceOfAPeer: of one address only some connections are kept that have said nothing, and
// none of them counts among those of peers.
func TestSilentCallersTakeNoPlaceOfAPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewLayer(l, Config{
		Self: "c1/a", Cluster: func() string { return "" }, Logger: slog.New(slog.DiscardHandler),
		Allow: func(string, time.Time) bool { return false },
	})
	defer s.Close()
	accepted := make(chan net.Conn, 2*maxRaftConns)
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range maxRaftConns {
		dial()
	}
	for range maxSilentOfOne {
		c := <-accepted
		t.Cleanup(func() { c.Close() })
	}
	refused := dial()
	var p [1]byte
	if n, err := refused.Read(p[:]); n != 0 || err == nil {
		t.Fatal("a silent caller beyond the bound is kept")
	}
	s.mu.Lock()
	silent, peers := len(s.silent), len(s.conns)
	s.mu.Unlock()
	if silent != maxSilentOfOne || peers != 0 {
		t.Errorf("%d silent connections, %d of peers", silent, peers)
	}
}
