package coordinator_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"testing"
)

// TestALeaseMessageThatGrowsIsNotRead: one of many empty keys, plain or compressed, costs a coordinator
// about what it has on the wire.
func TestALeaseMessageThatGrowsIsNotRead(t *testing.T) {
	r := start(t, testConfig(t, 1, 1))
	r.waitReady(t)
	hello := bytes.Repeat([]byte{6<<3 | 2, 0}, 4<<20)  // held: {} four million times
	report := bytes.Repeat([]byte{8<<3 | 2, 0}, 3<<20) // keys: {}
	json := []byte(`{"held":[` + string(bytes.Repeat([]byte("{},"), 3<<20)) + `{}]}`)
	for _, c := range []struct {
		name, method, contentType string
		packed                    bool
		body                      []byte
		most                      uint64 // MiB
	}{
		{"Hello", "Hello", "application/proto", false, hello, 64},
		{"Hello, compressed", "Hello", "application/proto", true, hello, 8},
		{"Hello in JSON", "Hello", "application/json", false, json, 64},
		{"Report", "Report", "application/proto", false, report, 64},
		{"Report, compressed", "Report", "application/proto", true, report, 8},
	} {
		body, header := c.body, http.Header{"Content-Type": {c.contentType}}
		if c.packed {
			body = packed(t, body)
			header.Set("Content-Encoding", "gzip")
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.RPC+"/aliquot.v1.LeaseService/"+c.method, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		runtime.ReadMemStats(&after)
		n := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d KiB, %d MiB allocated, %s %s", c.name, len(body)>>10, n, answer.Status, text)
		if n > c.most || answer.StatusCode == http.StatusOK {
			t.Errorf("%s: %s, %d MiB allocated for a message of %d KiB; at most %d", c.name, answer.Status, n, len(body)>>10, c.most)
		}
	}
}

// packed is compressed.
func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
