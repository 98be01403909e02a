package console

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"aliquot/proto/aliquot/v1"
)

// TestThePortForGRPCIsNamed: the error of a call to a port that speaks HTTP/2 alone says which port to
// ask, and shows none of its bytes.
func TestThePortForGRPCIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')                     // an answer before the request would be another error
			_, _ = c.Write([]byte("\x00\x00\x12\x04\x00\x00\x00\x00\x00")) // the begin of a SETTINGS frame
			_ = c.Close()
		}
	}()
	g := &Globals{addr: l.Addr().String()}
	_, err = g.Limiter().Check(t.Context(), &aliquotv1.CheckRequest{})
	err = g.Explain(err, "a regional daemon", g.addr)
	if err == nil || !strings.Contains(err.Error(), "give --addr the port of --listen") || strings.Contains(err.Error(), "x00") {
		t.Error(err)
	}
}
