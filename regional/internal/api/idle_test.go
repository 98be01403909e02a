package api

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"aliquot/regional/internal/background"
)

// TestAnIdleGRPCConnectionIsClosed, though its client answers every ping.
func TestAnIdleGRPCConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{panics: &background.Panics{Log: discard}}
		s.envoy = &envoyService{service: s}
		server, _ := s.GRPC()
		client, conn := net.Pipe()
		l := &oneListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conns <- conn
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			idleClient(client)
		}()
		select {
		case <-ended:
			if took := time.Since(began); took < maxGRPCIdle || took > maxGRPCIdle+time.Minute {
				t.Errorf("it was closed after %v", took)
			}
		case <-time.After(time.Hour): // of the bubble's clock
			t.Error("it is open after an hour")
		}
		server.Stop()
		client.Close()
		<-ended
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// idleClient is a client of HTTP/2 that calls nothing, until the server closes the connection.
func idleClient(c net.Conn) {
	replies := make(chan func() error, 16) // written beside reading: a pipe has no room
	defer close(replies)
	framer := http2.NewFramer(c, c)
	go func() {
		for write := range replies {
			_ = write() // the connection may be gone; then reading ends
		}
	}()
	replies <- func() error {
		_, err := io.WriteString(c, http2.ClientPreface)
		return err
	}
	replies <- func() error { return framer.WriteSettings() }
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				replies <- framer.WriteSettingsAck
			}
		case *http2.PingFrame:
			if data := f.Data; !f.IsAck() {
				replies <- func() error { return framer.WritePing(true, data) }
			}
		}
	}
}

// oneListener is a listener that has the connections that a test puts into conns.
type oneListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for the next connection.
func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *oneListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr returns an address.
func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
