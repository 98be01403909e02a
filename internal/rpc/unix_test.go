package rpc

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketIn is the path of a socket in a folder whose name is short enough for one.
func socketIn(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "a.sock")
}

// TestUnixSocket is served over HTTP, may be used by its owner and group, and goes with
// its listener.
func TestUnixSocket(t *testing.T) {
	path := socketIn(t)
	address := "unix://" + path
	l, err := Listen("listen", address)
	if err != nil {
		t.Fatal(err)
	}
	if got := AddressOf(l); got != address {
		t.Errorf("address %s, want %s", got, address)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|unixMode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }), slog.New(slog.DiscardHandler), 0)
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	client, base := ClientOf(address)
	defer client.CloseIdleConnections()
	resp, err := client.Get(base + "/x")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(text) != "/x" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Listen("listen", address); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--listen "+address) {
		t.Errorf("a second listener: %v", err)
	}
	server.Close()
	<-served
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stayed: %v", err)
	}
}

// TestStaleSocketIsReplaced: one that a process left behind, which nobody listens on.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := socketIn(t)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l, err := Listen("listen", "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestUnixSocketsThatCannotBe(t *testing.T) {
	file := socketIn(t)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                                   "not a socket",
		"relative.sock":                        "absolute path",
		"/" + strings.Repeat("x", maxUnixPath): "108 bytes",
		filepath.Join(filepath.Dir(file), "none", "a.sock"): "the folder must exist",
	} {
		if l, err := Listen("grpc-listen", "unix://"+path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--grpc-listen") {
			t.Errorf("%.40s: %v, %v; want %q", path, l, err, want)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("the file that was there is %q, %v", text, err)
	}
}
