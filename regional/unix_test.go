package regional

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestUnixSockets: the daemon is asked over sockets of the file system, both ways, and
// leaves none behind.
func TestUnixSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := testConfig(newLeader(t, oneRule).address())
	c.Insecure, c.Advertise = false, "region.example"
	c.Listen, c.GRPCListen = "unix://"+filepath.Join(dir, "c.sock"), "unix://"+filepath.Join(dir, "g.sock")
	d, stop := startLive(t, c)
	if d.Addr() != c.Listen || d.GRPCAddr() != c.GRPCListen || d.advertised(d.Addr()) != c.Listen {
		t.Errorf("listens on %s and %s, tells %s", d.Addr(), d.GRPCAddr(), d.advertised(d.Addr()))
	}
	in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}}
	client, base := rpc.ClientOf(d.Addr())
	out, err := aliquotv1connect.NewLimiterServiceClient(client, base).Check(t.Context(), in)
	if err != nil || !out.GetAllowed() {
		t.Errorf("Connect: %v, %v", out, err)
	}
	out, err = aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).Check(t.Context(), in)
	if err != nil || !out.GetAllowed() {
		t.Errorf("gRPC: %v, %v", out, err)
	}
	resp, err := client.Get(base + "/check")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
	stop()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUnixSocketsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--ops-listen":                func(c *Config) { c.OpsListen = "unix:///run/o.sock" },
		"absolute path":               func(c *Config) { c.Listen = "unix://a.sock" },
		"give each its":               func(c *Config) { c.Listen, c.GRPCListen = "unix:///run/a.sock", "unix:///run/a.sock" },
		"at most 107":                 func(c *Config) { c.GRPCListen = "unix:///" + strings.Repeat("x", 200) },
		"--listen unix:/a.sock: give": func(c *Config) { c.Listen = "unix:/a.sock" },
	} {
		c := testConfig("127.0.0.1:1")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
