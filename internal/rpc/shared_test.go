package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestAPeerHasAHalf: a peer that announces a large message and does not send it leaves a half of the room for others.
func TestAPeerHasAHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewShared(64<<20, 10, time.Second)
		handler := WeighByPeer(gate, 32<<20, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); err != nil {
				w.WriteHeader(http.StatusTeapot)
			} else if n != r.ContentLength {
				t.Errorf("%d bytes of %d", n, r.ContentLength)
			}
		}))
		send := func(peer string, size int64, body io.Reader) int {
			r := httptest.NewRequest(http.MethodPost, "/x", body)
			r.RemoteAddr, r.ContentLength = peer, size
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		never, end := io.Pipe()
		slow := make(chan int, 1)
		go func() { slow <- send("192.0.2.1:1", 32<<20, never) }()
		synctest.Wait()
		large := make([]byte, 1<<20)
		if got := send("192.0.2.2:1", 1<<20, bytes.NewReader(large)); got != http.StatusOK {
			t.Errorf("another peer is answered %d", got)
		}
		began := time.Now()
		if got := send("192.0.2.1:2", 1<<20, bytes.NewReader(large)); got == http.StatusOK || time.Since(began) != time.Second {
			t.Errorf("the same peer is answered %d after %v", got, time.Since(began))
		}
		if got := send("192.0.2.1:2", 10, bytes.NewReader(large[:10])); got != http.StatusOK {
			t.Errorf("a small message of the same peer is answered %d", got)
		}
		_ = end.CloseWithError(io.ErrUnexpectedEOF)
		if got := <-slow; got != http.StatusTeapot {
			t.Errorf("the slow one is answered %d", got)
		}
		if got := send("192.0.2.1:2", 1<<20, bytes.NewReader(large)); got != http.StatusOK {
			t.Errorf("the same peer is answered %d afterwards", got)
		}
		if used, _ := gate.Used(); used != 0 || len(gate.peers) != 0 {
			t.Errorf("%d are used, %d peers are kept", used, len(gate.peers))
		}
	})
}

// TestAnswersThatNobodyReadsAreBounded: of large answers that nobody reads some are made, and end after a while; others are
// refused, and those to another peer are made.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	const large = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		answers := NewAnswers(NewShared(8*large+8192, 10, time.Second), 30*time.Second)
		mux := http.NewServeMux()
		mux.Handle("/x", connect.NewUnaryHandlerSimple("/x", func(context.Context, *emptypb.Empty) (*wrapperspb.BytesValue, error) {
			return wrapperspb.Bytes(make([]byte, large)), nil
		}, WeighAnswers()))
		server := NewServer(answers.Before(mux), slog.New(slog.DiscardHandler), 0)
		l := oneListener{make(chan net.Conn, 2), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		client, conn := net.Pipe()
		l.conns <- conn
		frames := http2.NewFramer(client, client)
		resets, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			for {
				f, err := frames.ReadFrame()
				if err != nil {
					return
				}
				switch f := f.(type) {
				case *http2.RSTStreamFrame:
					resets++
				case *http2.PingFrame:
					_ = frames.WritePing(true, f.Data)
				}
			}
		}()
		_, _ = io.WriteString(client, http2.ClientPreface)
		_ = frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		var head bytes.Buffer
		e := hpack.NewEncoder(&head)
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/x"}, {"content-type", "application/proto"}} {
			_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		for i := range uint32(20) {
			_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true})
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if used, _ := answers.gate.Used(); used > 4*large+4096 || used < 3*large {
			t.Errorf("%d bytes are held by one peer", used)
		}
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.Header.Set("Content-Type", "application/proto")
		w := httptest.NewRecorder()
		answers.Before(mux).ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.Len() < large {
			t.Errorf("another peer is answered %d with %d bytes", w.Code, w.Body.Len())
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if used, _ := answers.gate.Used(); used != 0 {
			t.Errorf("%d bytes are held after a minute", used)
		}
		if resets < 3 {
			t.Errorf("%d streams are reset", resets)
		}
		client.Close()
		server.Close()
		<-served
		<-ended
	})
}

// TestAnIdleStreamStays: between writes an answer has no deadline, and a write that is read in time ends nothing.
func TestAnIdleStreamStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := NewAnswers(NewShared(1<<20, 10, time.Second), 30*time.Second)
		server := NewServer(answers.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "part")
				w.(http.Flusher).Flush()
				<-time.After(time.Minute)
			}
		})), slog.New(slog.DiscardHandler), 0)
		l := oneListener{make(chan net.Conn, 1), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		client, conn := net.Pipe()
		l.conns <- conn
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(out.Body); err != nil || string(text) != "partpartpart" {
			t.Errorf("%q, %v", text, err)
		}
		out.Body.Close()
		transport.CloseIdleConnections()
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
