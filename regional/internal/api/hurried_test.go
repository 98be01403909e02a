package api

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"aliquot/internal/rpc"
)

// TestAnswersThatAreNotReadEnd: over HTTP/1.1 and HTTP/2 a call ends whose client does not read
// its answer; one that is read is whole, and the connection serves the next call later than the
// first one had time.
func TestAnswersThatAreNotReadEnd(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	ended := make(chan error, 1)
	mux := http.NewServeMux()
	mux.Handle("/small", hurried(timeout, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })))
	mux.HandleFunc("/unhurried", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	mux.Handle("/large", hurried(timeout, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil { // more than any buffer holds
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- err
	})))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(mux, discard, 10*time.Second)
	go server.Serve(l)
	defer server.Close()
	for name, client := range map[string]*http.Client{"HTTP/1.1": {Transport: &http.Transport{}}, "HTTP/2": h2c()} {
		t.Run(name, func(t *testing.T) {
			defer client.CloseIdleConnections()
			connections := 0
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				if !c.Reused {
					connections++
				}
			}})
			get := func(path string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(trace, http.MethodGet, "http://"+l.Addr().String()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			for _, path := range []string{"/small", "/unhurried"} { // which sets no time of its own
				resp := get(path)
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "answer" {
					t.Errorf("%q, %v", text, err)
				}
				resp.Body.Close()
				<-time.After(timeout + timeout/4)
			}
			if connections != 1 {
				t.Errorf("%d connections, want 1", connections)
			}
			resp := get("/large")
			defer resp.Body.Close()
			if err := <-ended; err == nil {
				t.Error("it ended without an error")
			}
		})
	}
}
