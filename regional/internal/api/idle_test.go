package api

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"

	"aliquot/regional/internal/background"
)

// TestAnIdleGRPCConnectionIsClosed, though its client answers every ping.
func TestAnIdleGRPCConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{panics: &background.Panics{Log: discard}}
		s.envoy = &envoyService{service: s}
		server, _ := s.GRPC()
		l := bufconn.Listen(1 << 16)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		client, err := l.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
