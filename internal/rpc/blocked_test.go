package rpc

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// oneListener has one connection, and then none until it is closed.
type oneListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l oneListener) Close() error   { close(l.closed); return nil }
func (l oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestWhoSendsAndDoesNotReadGoes: an HTTP/2 connection ends by itself whose client reads
// nothing, though it goes on sending.
func TestWhoSendsAndDoesNotReadGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		l := oneListener{make(chan net.Conn, 1), make(chan struct{})}
		l.conns <- conn
		server := NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler), 0)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		frames := http2.NewFramer(client, nil)
		_, err := io.WriteString(client, http2.ClientPreface)
		if err == nil {
			err = frames.WriteSettings()
		}
		if err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); err == nil && time.Since(began) < time.Hour; {
			<-time.After(time.Second)
			err = frames.WriteWindowUpdate(0, 1)
		}
		if err == nil {
			t.Error("an hour later the connection is open")
		}
		client.Close()
		server.Close()
		<-served
	})
}
