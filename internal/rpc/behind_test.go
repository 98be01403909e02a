package rpc

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestNothingBehindAMalformedBodyIsServed: where a body's chunks are malformed, nobody knows where the next request
// begins. So the answer is the last one of its connection, whichever handlers have wrapped the body.
func TestNothingBehindAMalformedBodyIsServed(t *testing.T) {
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close() // as connect does
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	for name, handler := range map[string]http.Handler{
		"QuietBody": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { read(w, WithBody(r, QuietBody(r.Body))) }),
		"Weigh":     Weigh(NewGate(1<<20, 1, time.Second), 1<<20, read),
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := NewServer(handler, slog.New(slog.DiscardHandler), time.Minute)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		for bad, want := range map[string]int{"-1\r\n": 1, "zz\r\n": 1, "10000000000000000\r\n": 1, "1\r\na\r\n0\r\n\r\n": 2} {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+bad+"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			text, _ := io.ReadAll(conn)
			conn.Close()
			if n := strings.Count(string(text), "HTTP/1.1 "); n != want {
				t.Errorf("%s: %d answers to %q and a request behind it, want %d:\n%s", name, n, bad, want, text)
			}
		}
	}
}
