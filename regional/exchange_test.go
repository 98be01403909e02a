package regional

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// roomyRule never denies what the tests ask of it, and hardly refills.
const roomyRule = "rules: [{id: r0, local_cache: false, params: {capacity: 1000000, refill_rate: 0.001}}]"

// said is an answer to one message, whichever way it came: comparable, without what
// differs from one call to the next.
func said(t *testing.T, out proto.Message, code connect.Code, why string) string {
	t.Helper()
	if code != 0 {
		return fmt.Sprintf("%v: %s", code, why)
	}
	one, ok := out.(*aliquotv1.CheckResponse)
	all := []*aliquotv1.CheckBatchResult{{Response: one}}
	if !ok {
		all = out.(*aliquotv1.CheckBatchResponse).GetResults()
	}
	var b strings.Builder
	for _, r := range all {
		if a := r.GetResponse(); a != nil {
			a.DecisionId, a.Remaining, a.ResetAfter = "", 0, nil
			for _, l := range a.GetLimits() {
				l.Remaining, l.ResetAfter = 0, nil
			}
		}
		text, err := protojson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.ReplaceAll(string(text), " ", "") + "\n")
	}
	return b.String()
}

// TestEveryWaySaysTheSame: a message in bytes gets, over gRPC and Connect, what the
// generated code and the service make of it.
func TestEveryWaySaysTheSame(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
		conn := dialGRPC(t, d)
		empty := func(n int) string { return strings.Repeat("\x0a\x00", n) }
		entry := func(name string) string {
			return fmt.Sprintf("\x0a%c\x0a%c%s\x12\x01v", len(name)+5, len(name), name)
		}
		many := func(n int) string {
			var b strings.Builder
			for i := range n {
				b.WriteString(entry(fmt.Sprint(i)))
			}
			return b.String()
		}
		for name, c := range map[string]struct {
			batch   bool
			message string
		}{
			"nothing":                   {false, ""},
			"a key":                     {false, entry("api_key") + "\x10\x05\x1a\x03abc"},
			"an unknown field":          {false, "\x2a\x01x" + entry("api_key")},
			"a group":                   {false, "\x2b\x2c" + entry("api_key")},
			"a cost that is a text":     {false, "\x12\x01a"},
			"cost 0":                    {false, "\x10\x00"},
			"a cost above the capacity": {false, "\x10\xff\xff\xff\x7f"},
			"requests named as a unit":  {false, "\x22\x0c\x0a\x08requests\x10\x01"},
			"65 attributes":             {false, many(65)},
			"an empty name":             {false, "\x0a\x03\x12\x01v"},
			"a name said twice":         {false, entry("api_key") + entry("api_key")},
			"not UTF-8":                 {false, "\x1a\x01\xff"},
			"cut off":                   {false, "\x1a\x09abc"},
			"field 0":                   {false, "\x00\x00"},
			"a batch of none":           {true, ""},
			"a batch of 2":              {true, "\x0a\x02\x10\x02\x0a\x0e" + entry("api_key")},
			"with invalid ones":         {true, "\x0a\x02\x10\x00" + empty(3) + "\x0a\x02\x10\x00\x0a\x02\x10\x00"},
			"invalid ones alone":        {true, "\x0a\x02\x10\x00\x0a\x02\x10\x00"},
			"a batch with an odd one":   {true, empty(2) + "\x0a\x02\x2b\x2c"},
			"a batch that is cut off":   {true, empty(2) + "\x0a\x03\x1a\x09a"},
			"a batch of 1000":           {true, empty(1000)},
			"a batch of 1001":           {true, empty(1001)},
			"something else in a batch": {true, "\x10\x05" + empty(1) + "\x12\x01x"},
		} {
			oneCase(t, name, func(t *testing.T) {
				procedure := aliquotv1connect.LimiterServiceCheckProcedure
				newReply := func() proto.Message { return new(aliquotv1.CheckResponse) }
				if c.batch {
					procedure = aliquotv1connect.LimiterServiceCheckBatchProcedure
					newReply = func() proto.Message { return new(aliquotv1.CheckBatchResponse) }
				}
				want := byMessages(t, d, c.batch, c.message)
				raw, reply, out := []byte(c.message), []byte(nil), newReply()
				err := conn.Invoke(t.Context(), procedure, &raw, &reply, grpc.ForceCodec(rawBytes{}))
				if err == nil {
					if err := proto.Unmarshal(reply, out); err != nil {
						t.Fatal(err)
					}
				}
				got := said(t, out, connect.Code(status.Code(err)), strings.TrimPrefix(status.Convert(err).Message(), "the message cannot be read: "))
				if got != want {
					t.Errorf("gRPC: %s\nwant: %s", got, want)
				}
				if got := byConnect(t, d, procedure, c.message, newReply()); got != want {
					t.Errorf("Connect: %s\nwant:    %s", got, want)
				}
			})
		}
	})
}

// byMessages is what the generated code and the service make of a message.
func byMessages(t *testing.T, d *Daemon, batch bool, message string) string {
	t.Helper()
	var out proto.Message
	var err error
	var one aliquotv1.CheckRequest
	var all aliquotv1.CheckBatchRequest
	switch {
	case batch:
		if err = proto.Unmarshal([]byte(message), &all); err == nil {
			out, err = d.service.CheckBatch(t.Context(), &all)
		}
	default:
		if err = proto.Unmarshal([]byte(message), &one); err == nil {
			out, err = d.service.Check(t.Context(), &one)
		}
	}
	if err == nil {
		return said(t, out, 0, "")
	}
	if connect.CodeOf(err) == connect.CodeUnknown { // the generated code's
		return said(t, nil, connect.CodeInvalidArgument, err.Error())
	}
	return said(t, nil, connect.CodeOf(err), rpcMessage(err))
}

// byConnect is what Connect answers, as protobuf and as JSON: an error always is JSON.
func byConnect(t *testing.T, d *Daemon, procedure, message string, out proto.Message) string {
	t.Helper()
	client := connect.NewClient[[]byte, []byte](clientOf(d), "http://"+d.Addr()+procedure, connect.WithCodec(rawBytes{}))
	raw := []byte(message)
	reply, err := client.CallUnary(t.Context(), connect.NewRequest(&raw))
	if err != nil {
		text := rpcMessage(err)
		if i := strings.Index(text, "Request: "); i >= 0 { // before it stands what reads what
			text = text[i+len("Request: "):]
		}
		return said(t, nil, connect.CodeOf(err), text)
	}
	if err := proto.Unmarshal(*reply.Msg, out); err != nil {
		t.Fatal(err)
	}
	return said(t, out, 0, "")
}

// TestJSONSaysWhatProtobufSays, with and without a charset, and compressed too.
func TestJSONSaysWhatProtobufSays(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
		body := `{"requests":[{"attributes":{"api_key":"k"},"cost":"2"},{"cost":0},{}]}`
		var all aliquotv1.CheckBatchRequest
		if err := protojson.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		message, err := proto.Marshal(&all)
		if err != nil {
			t.Fatal(err)
		}
		want := byMessages(t, d, true, string(message))
		for _, kind := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8"} {
			resp, err := clientOf(d).Post("http://"+d.Addr()+aliquotv1connect.LimiterServiceCheckBatchProcedure, kind, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			var out aliquotv1.CheckBatchResponse
			if err != nil || resp.StatusCode != 200 || protojson.Unmarshal(text, &out) != nil {
				t.Fatalf("%s: %s, %v: %s", kind, resp.Status, err, text)
			}
			if got := said(t, &out, 0, ""); got != want || !bytes.Contains(text, []byte(`"never":false`)) {
				t.Errorf("%s: %s\nwant %s\nin %s", kind, got, want, text)
			}
		}
	})
}

// TestWhatIsRememberedIsACopy: the text of a request is written over by the next call, and
// what Explain tells of a denial still is its own.
func TestWhatIsRememberedIsACopy(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		rules := `
defaults: {enforcement: independent}
rules: [{id: r0, params: {capacity: 1, refill_rate: 0.0001}}]
blacklist: ["bad*"]`
		d, _ := startLive(t, testConfig(newLeader(t, rules).address()))
		client := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
		const callers, calls = 8, 30
		var denials [callers][calls]string
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range calls {
					in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "bad" + strings.Repeat(string(rune('a'+c)), 1+i)}}
					out, err := client.Check(context.Background(), in)
					if err != nil || out.GetAllowed() {
						t.Errorf("%v, %v", out, err)
						return
					}
					denials[c][i] = out.GetDecisionId()
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for c := range denials {
			for i, id := range denials[c] {
				request, known := d.answers.Denied(id)
				if want := "bad" + strings.Repeat(string(rune('a'+c)), 1+i); !known || request.Attributes.Get("api_key") != want {
					t.Fatalf("%s is of %v, want %s", id, request.Attributes, want)
				}
			}
		}
	})
}

// rpcMessage returns an error's text without the code that Connect puts in front.
func rpcMessage(err error) string {
	if rpcErr, ok := errors.AsType[*connect.Error](err); ok {
		return rpcErr.Message()
	}
	return err.Error()
}
