package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

func TestJSONPrintsZeroValuesWithoutPadding(t *testing.T) {
	got, err := jsonCodec{}.Marshal(&aliquotv1.CheckResponse{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"allowed":false,"ruleId":"","limit":"0","remaining":"0","mode":"","limits":[],"reason":"","never":false,"decisionId":"","problem":""}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONRefusesUnknownFields(t *testing.T) {
	body := []byte(`{"attributes":{},"prise":5}`)
	if err := (jsonCodec{}).Unmarshal(body, &aliquotv1.CheckRequest{}); err == nil || !strings.Contains(err.Error(), "prise") {
		t.Errorf("error %v does not name the field", err)
	}
	if err := (jsonCodec{}).Unmarshal(nil, &aliquotv1.CheckRequest{}); err == nil {
		t.Error("an empty body was accepted")
	}
}

func TestTable(t *testing.T) {
	base := errors.New("base")
	table := Table{{Err: base, Code: connect.CodeAlreadyExists}}
	for _, c := range []struct {
		err  error
		want connect.Code
	}{
		{fmt.Errorf("while: %w", base), connect.CodeAlreadyExists},
		{connect.NewError(connect.CodeNotFound, base), connect.CodeNotFound},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), connect.CodeDeadlineExceeded},
		{context.Canceled, connect.CodeCanceled},
		{errors.New("other"), connect.CodeInternal},
	} {
		if got := connect.CodeOf(table.Error(c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if table.Error(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestListenNamesTheFlagOfAPortInUse(t *testing.T) {
	l, err := Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen("ops-listen", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "--ops-listen "+l.Addr().String()) {
		t.Errorf("error %v does not name the flag and the address", err)
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "example.com:1": false, "127.0.0.1": false,
	} {
		if got := IsLoopback(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestServerSpeaksBothVersions(t *testing.T) {
	l, err := Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}), slog.New(slog.DiscardHandler), 0)
	go srv.Serve(l)
	defer srv.Close()
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	for _, c := range []struct {
		client *http.Client
		want   int
	}{{NewHTTPClient(), 1}, {&http.Client{Transport: &http.Transport{Protocols: h2}}, 2}} {
		resp, err := c.client.Get(BaseURL(l.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != c.want {
			t.Errorf("HTTP/%d, want %d", resp.ProtoMajor, c.want)
		}
	}
}

// TestOnePeerHasAPartOfTheConnections: one address has no more than its part, and has it again when one of
// them ends.
func TestOnePeerHasAPartOfTheConnections(t *testing.T) {
	l := &Listener{peers: map[netip.Addr]int{}}
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range MaxPeerConnections {
		if !l.count(one) {
			t.Fatal("refused early")
		}
	}
	if l.count(one) || !l.count(other) || !l.count(netip.Addr{}) {
		t.Error("one peer has more than its part, or takes that of others")
	}
	l.uncount(one)
	if !l.count(one) || l.Open() != MaxPeerConnections+2 {
		t.Errorf("%d are open", l.Open())
	}
}
