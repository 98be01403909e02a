package rpc

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestMessagesAreWeighed: one that has no room is refused before it is read, by its length, by what it can
// become, or while it is read; a small one passes, and what was taken is given back.
func TestMessagesAreWeighed(t *testing.T) {
	const room = 1 << 20
	for name, c := range map[string]struct {
		body       int
		unknown    bool // its length
		encoding   string
		busy, want int64 // room that others have; of the gate, while it is served
		refused    bool
	}{
		"a small one":                      {body: MaxUnweighed, busy: room},
		"by its length":                    {body: 10_000, want: 80_000},
		"by its length, no room":           {body: 10_000, busy: room - 1, refused: true},
		"larger than all there is":         {body: 500_000, want: room},
		"compressed":                       {body: 100, encoding: "gzip", want: 100 * maxGzipRatio * MemoryPerByte},
		"compressed, no room":              {body: 100, encoding: "gzip", busy: room / 2, refused: true},
		"as it is read":                    {body: 10_000, unknown: true, want: weighStep * MemoryPerByte},
		"as it is read, small":             {body: 1000, unknown: true, busy: room},
		"as it is read, no room":           {body: 10_000, unknown: true, busy: room, refused: true},
		"compressed and of unknown length": {body: 1000, unknown: true, encoding: "gzip", want: room},
	} {
		gate := NewGate(room, 10, time.Millisecond)
		if err := gate.TryEnter(t.Context(), c.busy); err != nil {
			t.Fatal(err)
		}
		var held int64
		h := Weigh(gate, 4<<20, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusTooManyRequests)
				return
			}
			held, _ = gate.Used()
		}))
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, c.body)))
		r.Header.Set("Content-Type", "application/proto")
		if r.Header.Set("Content-Encoding", c.encoding); c.unknown {
			r.ContentLength = -1
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		refused := w.Code == http.StatusTooManyRequests && strings.Contains(w.Body.String(), "too large for now")
		if refused != c.refused || !refused && held-c.busy != c.want {
			t.Errorf("%s: %d %s, held %d", name, w.Code, w.Body, held-c.busy)
		}
		if used, _ := gate.Used(); used != c.busy {
			t.Errorf("%s: %d are not given back", name, used-c.busy)
		}
	}
}
