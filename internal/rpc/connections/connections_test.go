package connections

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/rpc"
)

// TestOpenConnectionsAreCounted: each once, from when it is accepted until it is first
// closed.
func TestOpenConnectionsAreCounted(t *testing.T) {
	l, err := rpc.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reg := prometheus.NewRegistry()
	Watch(reg, l)
	var accepted []net.Conn
	for range 3 {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		accepted = append(accepted, c)
	}
	accepted[0].Close()
	accepted[0].Close()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			told = append(told, fmt.Sprint(f.GetName(), " ", m.GetLabel()[0].GetValue(), " ", m.GetGauge().GetValue()))
		}
	}
	if want := []string{"aliquot_connections listen 2", "aliquot_connections_limit listen 16384"}; !slices.Equal(told, want) {
		t.Errorf("told is %q, want %q", told, want)
	}
}
