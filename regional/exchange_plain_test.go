package regional

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// connectReply is what a call over Connect got, without what differs from call to call.
type connectReply struct {
	status int
	header string
	body   []byte
}

// called calls Check over Connect. Of a message whose length is not told plainCalls leaves
// everything to connect-go.
func called(t *testing.T, d *Daemon, message []byte, lengthTold bool, lines ...string) connectReply {
	t.Helper()
	var body io.Reader = bytes.NewReader(message)
	if !lengthTold {
		body = io.MultiReader(body) // hides the length
	}
	request, err := http.NewRequest("POST", "http://"+d.Addr()+aliquotv1connect.LimiterServiceCheckProcedure, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/proto")
	request.Header.Set("Accept-Encoding", "identity")
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		request.Header.Set(name, value)
	}
	resp, err := transportOf(d).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := connectReply{status: resp.StatusCode}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	if resp.StatusCode == http.StatusOK {
		resp.Header.Del("Content-Length") // what is left, and until when, is not the same twice
	}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(out.body))
		if err != nil {
			t.Fatal(err)
		}
		if out.body, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	out.header = fmt.Sprint(resp.Header)
	return out
}

// TestPlainCallsAreAnsweredAsByConnect, whatever is usual or not about them.
func TestPlainCallsAreAnsweredAsByConnect(t *testing.T) {
	rules := strings.Builder{}
	rules.WriteString("defaults: {enforcement: independent}\nrules:\n  - {id: r0, match: {api_key_pattern: small}, params: {capacity: 1, refill_rate: 0.001}}\n")
	numbers := map[string]uint32{"r0": 1}
	for i := range uint32(30) {
		fmt.Fprintf(&rules, "  - {id: r%d, match: {api_key_pattern: large}, params: {capacity: 1000000, refill_rate: 0.001}}\n", i+1)
		numbers[fmt.Sprintf("r%d", i+1)] = i + 2
	}
	l := newLeader(t, rules.String())
	l.set(func() { l.rules.Numbers = numbers })
	d, _ := startLive(t, testConfig(l.address()))
	asks := func(key string, cost int64) []byte {
		message, err := proto.Marshal(&aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": key}, Cost: &cost})
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	for _, c := range []struct {
		name    string
		message []byte
		lines   []string
		status  int
		rules   int // of the answer
	}{
		{"no rule", asks("none", 1), nil, 200, 0},
		{"denied", asks("small", 2), nil, 200, 1},
		{"a large answer", asks("large", 1), nil, 200, 30},
		{"a large answer, compressed", asks("large", 1), []string{"Accept-Encoding: br, gzip"}, 200, 30},
		{"a small answer is not compressed", asks("none", 1), []string{"Accept-Encoding: gzip"}, 200, 0},
		{"the version", asks("none", 1), []string{"Connect-Protocol-Version: 1"}, 200, 0},
		{"another version", asks("none", 1), []string{"Connect-Protocol-Version: 2"}, 400, 0},
		{"time enough", asks("large", 1), []string{"Connect-Timeout-Ms: 60000"}, 200, 30},
		{"no time", asks("none", 1), []string{"Connect-Timeout-Ms: 0"}, 504, 0},
		{"less than no time", asks("none", 1), []string{"Connect-Timeout-Ms: -1"}, 400, 0},
		{"a time that is none", asks("none", 1), []string{"Connect-Timeout-Ms: soon"}, 400, 0},
		{"too many digits", asks("none", 1), []string{"Connect-Timeout-Ms: 00000000001"}, 400, 0},
		{"an encoding that nobody knows", asks("none", 1), []string{"Content-Encoding: zip"}, 501, 0},
		{"a cost of nothing", asks("none", 0), nil, 400, 0},
		{"no message", []byte{0xff}, nil, 400, 0},
		{"a text that is none", []byte("\x0a\x08\x0a\x03key\x12\x01\xff"), nil, 400, 0},
		{"an unknown field", append(asks("none", 1), 0x78, 1), nil, 200, 0},
		{"a huge message", asks(strings.Repeat("k", 4<<10+1), 1), nil, 400, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, usual := called(t, d, c.message, true, c.lines...), called(t, d, c.message, false, c.lines...)
			if plain.status != c.status || plain.status != usual.status || plain.header != usual.header {
				t.Errorf("%d %s\nwant %d %s", plain.status, plain.header, usual.status, usual.header)
			}
			if c.status != 200 {
				if !bytes.Equal(plain.body, usual.body) {
					t.Errorf("%s\nwant %s", plain.body, usual.body)
				}
				return
			}
			for _, body := range [][]byte{plain.body, usual.body} {
				var out aliquotv1.CheckResponse
				if err := proto.Unmarshal(body, &out); err != nil || len(out.GetLimits()) != c.rules || out.GetAllowed() == (c.name == "denied") {
					t.Errorf("%v, %v", &out, err)
				}
			}
		})
	}
}
