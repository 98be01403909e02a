package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestPlainRefusalsSayWhatToDo: what a client of plain HTTP gets that connect and net/http refuse. A
// message that is too large, told or not, packed or not, is not taken for a rate limit; a refusal of
// the handler, or for want of memory, is one.
func TestPlainRefusalsSayWhatToDo(t *testing.T) {
	const largest, path = 1 << 10, "/aliquot.v1.LimiterService/Check"
	gate := NewGate(1<<20, 1, time.Millisecond)
	mux := http.NewServeMux()
	mux.Handle(path, connect.NewUnaryHandlerSimple(path, func(_ context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		if in.GetNamespace() == "full" {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("later"))
		}
		return &aliquotv1.CheckResponse{}, nil
	}, connect.WithReadMaxBytes(largest), Received()))
	mux.Handle("/stream", connect.NewClientStreamHandlerSimple("/stream", func(context.Context, *connect.ClientStream[aliquotv1.CheckRequest]) (*aliquotv1.CheckResponse, error) {
		return nil, errors.New("not called")
	}))
	mux.HandleFunc("PUT /rules", func(http.ResponseWriter, *http.Request) {})
	handler := Refusals(Weigh(gate, 4<<20, mux))
	large := `{"namespace":"` + strings.Repeat("n", 10_000) + `"}`
	packed := &bytes.Buffer{}
	z := gzip.NewWriter(packed)
	_, _ = z.Write([]byte(large))
	_ = z.Close()
	const of = "application/json"
	for name, c := range map[string]struct {
		method, path, kind, encoding, body string
		unknown, busy                      bool // the length; the memory
		status                             int
		code, says                         string
	}{
		"an ordinary one":               {"POST", path, of, "", `{}`, false, false, 200, "", ""},
		"too large":                     {"POST", path, of, "", large, false, false, 413, "resource_exhausted", "larger than configured max 1024"},
		"too large, of unknown length":  {"POST", path, of, "", large, true, false, 413, "resource_exhausted", "larger than configured max 1024"},
		"too large once it is unpacked": {"POST", path, of, "gzip", packed.String(), false, false, 413, "resource_exhausted", "larger than configured max 1024"},
		"by a generated client":         {"POST", path, "application/proto", "", large, false, false, 429, "resource_exhausted", "larger than configured max 1024"},
		"no memory":                     {"POST", path, of, "", large, false, true, 429, "resource_exhausted", "too large for now"},
		"no memory, of unknown length":  {"POST", path, of, "", large, true, true, 429, "resource_exhausted", "too large for now"},
		"refused by the handler":        {"POST", path, of, "", `{"namespace":"full"}`, false, false, 429, "resource_exhausted", "later"},
		"curl -d":                       {"POST", path, "application/x-www-form-urlencoded", "", `{}`, false, false, 415, "invalid_argument", "'Content-Type: application/json'"},
		"no content type":               {"POST", path, "", "", `{}`, false, false, 415, "invalid_argument", "'Content-Type: application/json'"},
		"a stream":                      {"POST", "/stream", of, "", `{}`, false, false, 415, "invalid_argument", "is a stream"},
		"GET":                           {"GET", path, "", "", ``, false, false, 405, "unimplemented", `"GET" is not answered at this path; use POST`},
		"a method of the mux":           {"POST", "/rules", of, "", `{}`, false, false, 405, "unimplemented", "use PUT"},
		"another path":                  {"POST", "/v1/check\"", of, "", `{}`, false, false, 404, "unimplemented", `there is nothing at "/v1/check\""; GET /`},
	} {
		if c.busy {
			if err := gate.TryEnter(t.Context(), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest(c.method, "/", io.NopCloser(strings.NewReader(c.body)))
		r.URL.Path = c.path
		r.ContentLength = int64(len(c.body))
		if c.unknown {
			r.ContentLength = -1
		}
		r.Header.Set("Content-Type", c.kind)
		r.Header.Set("Content-Encoding", c.encoding)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if c.busy {
			gate.Leave(1 << 20)
		}
		var out struct{ Code, Message string }
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != c.status || out.Code != c.code || !strings.Contains(out.Message, c.says) {
			t.Errorf("%s: %d %s, %v; want %d %s %q", name, w.Code, w.Body, err, c.status, c.code, c.says)
		}
	}
}
