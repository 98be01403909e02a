package rpc

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// TestWhatIsWrongWithAServerIsSeen at the usual level of the log, and what its clients do
// is not.
func TestWhatIsWrongWithAServerIsSeen(t *testing.T) {
	var log bytes.Buffer
	l, err := Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }), slog.New(slog.NewTextHandler(&log, nil)), 0)
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	if resp, err := http.Get("http://" + l.Addr().String()); err == nil {
		resp.Body.Close()
		t.Errorf("a handler that panics answered %d", resp.StatusCode)
	}
	server.Close()
	<-served
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "panic serving") || !strings.Contains(text, "serverlog_test.go") {
		t.Errorf("the log has:\n%s", text)
	}
	log.Reset()
	for line, seen := range map[string]bool{
		"http: Accept error: accept tcp: too many open files; retrying in 5ms\n": true,
		"http2: server connection error from 192.0.2.1: PROTOCOL_ERROR\n":        false,
		"http: superfluous response.WriteHeader call\n":                          false,
	} {
		server.ErrorLog.Print(line)
		if got := log.Len() > 0; got != seen {
			t.Errorf("%q is seen: %v\n%s", line, got, log.String())
		}
		log.Reset()
	}
}
