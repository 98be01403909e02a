package rpc

import (
	"errors"
	"net"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// A request to a port where nothing listens was not sent; one whose connection ended may have been read.
func TestWhatWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_ = c.Close()
		}
	}()
	client := aliquotv1connect.NewClusterServiceClient(NewHTTPClient(), BaseURL(l.Addr().String()))
	if _, err := client.SetTiming(t.Context(), &aliquotv1.SetTimingRequest{}); err == nil || NotSent(err) {
		t.Errorf("read and not answered: %v", err)
	}
	_ = l.Close()
	<-closed
	if _, err := client.SetTiming(t.Context(), &aliquotv1.SetTimingRequest{}); !NotSent(err) {
		t.Errorf("nothing listens: %v", err)
	}
	if NotSent(nil) || NotSent(errors.New("strange")) {
		t.Error("no error of a connection")
	}
}
