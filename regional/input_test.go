package regional

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const oneRule = "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    key: [api_key]\n    params: {capacity: 100, refill_rate: 10}\n"

func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `%s"a%d":"v"`, map[bool]string{true: ","}[i > 0], i)
	}
	return b.String()
}

func TestInputOverHTTP(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	key := `"attributes":{"api_key":"k"}`
	for _, c := range []struct {
		name, body string
		code       string // "": an ordinary answer
		never      bool
	}{
		{"cost absent", `{` + key + `}`, "", false},
		{"cost null", `{` + key + `,"cost":null}`, "", false},
		{"cost 1", `{` + key + `,"cost":1}`, "", false},
		{"cost as a string", `{` + key + `,"cost":"1"}`, "", false},
		{"cost above capacity", `{` + key + `,"cost":101}`, "", true},
		{"largest cost", `{` + key + `,"cost":1000000000000}`, "", true},
		{"cost 0", `{` + key + `,"cost":0}`, "invalid_argument", false},
		{"cost -1", `{` + key + `,"cost":-1}`, "invalid_argument", false},
		{"cost too large", `{` + key + `,"cost":1000000000001}`, "invalid_argument", false},
		{"cost 2^53+1", `{` + key + `,"cost":9007199254740993}`, "invalid_argument", false},
		{"cost 2^63-1", `{` + key + `,"cost":9223372036854775807}`, "invalid_argument", false},
		{"cost 2^63", `{` + key + `,"cost":9223372036854775808}`, "invalid_argument", false},
		{"cost -2^63", `{` + key + `,"cost":-9223372036854775808}`, "invalid_argument", false},
		{"cost 1.5", `{` + key + `,"cost":1.5}`, "invalid_argument", false},
		{"cost 1e400", `{` + key + `,"cost":1e400}`, "invalid_argument", false},
		{"cost NaN", `{` + key + `,"cost":NaN}`, "invalid_argument", false},
		{"cost a list", `{` + key + `,"cost":[1]}`, "invalid_argument", false},
		{"unknown field", `{` + key + `,"costs":1}`, "invalid_argument", false},
		{"no body", ``, "invalid_argument", false},
		{"not JSON", `hello`, "invalid_argument", false},
		{"a list", `[]`, "invalid_argument", false},
		{"two objects", `{}{}`, "invalid_argument", false},
		{"deep JSON", strings.Repeat(`{"attributes":`, 20_000), "invalid_argument", false},
		{"no attributes", `{}`, "", false},
		{"64 attributes", `{"attributes":{` + attributes(64) + `}}`, "", false},
		{"65 attributes", `{"attributes":{` + attributes(65) + `}}`, "invalid_argument", false},
		{"10,000 attributes", `{"attributes":{` + attributes(10_000) + `}}`, "invalid_argument", false},
		{"empty name", `{"attributes":{"":"v"}}`, "invalid_argument", false},
		{"long name", `{"attributes":{"` + strings.Repeat("n", 65) + `":"v"}}`, "invalid_argument", false},
		{"value of 4 KiB", `{"attributes":{"api_key":"` + strings.Repeat("v", 4096) + `"}}`, "", false},
		{"value of 4 KiB and 1", `{"attributes":{"api_key":"` + strings.Repeat("v", 4097) + `"}}`, "invalid_argument", false},
		{"value of 1 MiB", `{"attributes":{"api_key":"` + strings.Repeat("v", 1<<20) + `"}}`, "invalid_argument", false},
		{"value of 5 MiB", `{"attributes":{"api_key":"` + strings.Repeat("v", 5<<20) + `"}}`, "resource_exhausted", false},
		{"invalid UTF-8", "{\"attributes\":{\"api_key\":\"\xff\xfe\"}}", "invalid_argument", false},
		{"lone surrogate", `{"attributes":{"api_key":"\ud800"}}`, "invalid_argument", false},
		{"value a number", `{"attributes":{"api_key":1}}`, "invalid_argument", false},
		{"long namespace", `{"namespace":"` + strings.Repeat("n", 65) + `"}`, "invalid_argument", false},
		{"braces", `{"attributes":{"api_key":"{a}"}}`, "", false},
		{"turned braces", `{"attributes":{"api_key":"}{"}}`, "", false},
		{"NUL", `{"attributes":{"api_key":"a\u0000b"}}`, "", false},
		{"CRLF and a Redis command", `{"attributes":{"api_key":"a\r\nFLUSHALL\r\n"}}`, "", false},
		{"__proto__", `{"attributes":{"__proto__":"x","api_key":"__proto__"}}`, "", false},
		{"right to left", `{"attributes":{"api_key":"\u202eabc\u05d0"}}`, "", false},
		{"glob", `{"attributes":{"api_key":"*"}}`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := post(t, d, c.body)
			if a.Code != c.code {
				t.Fatalf("code %q (%s), want %q", a.Code, a.Message, c.code)
			}
			if c.code == "" && (a.Status != 200 || a.Never != c.never || a.Allowed == c.never) {
				t.Errorf("answer %+v", a)
			}
			if len(a.Message) > 300 {
				t.Errorf("a message of %d bytes repeats the input", len(a.Message))
			}
		})
	}
}

func TestTwinValuesAreDifferentClients(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		for _, v := range []string{"\u00e9", "e\u0301", "{a}", "a", "A", "a ", "a\x00"} {
			got := post(t, d, fmt.Sprintf(`{"attributes":{"api_key":%s}}`, mustJSON(v)))
			if got.Remaining != 49 {
				t.Errorf("%q has %d left, a client of its own has 49", v, got.Remaining)
			}
		}
	})
}

func TestCostAboveCapacityConsumesNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		a := post(t, d, `{"attributes":{"api_key":"k"},"cost":101}`)
		if a.Allowed || !a.Never || a.RetryAfter != "0s" || !strings.Contains(a.Reason, "capacity 100") {
			t.Errorf("%+v", a)
		}
		if a := check(t, d, "k"); a.Remaining != 49 {
			t.Errorf("remaining %d, want 49", a.Remaining)
		}
	})
}

func TestOtherHTTP(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	base := "http://" + d.Addr()
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 200}, {"GET", "/nothing", 404}, {"GET", "/aliquot.v1.LimiterService/Check", 405},
		{"TRACE", "/", 405}, {"POST", "/aliquot.v1.LimiterService/None", 404},
	} {
		req, err := http.NewRequest(c.method, base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := clientOf(d).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, resp.StatusCode, c.want)
		}
	}
}

func dialGRPC(t *testing.T, d *Daemon) *grpc.ClientConn {
	t.Helper()
	target, options := d.GRPCAddr(), []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if n := networkOf(t); n != nil {
		dial := func(ctx context.Context, address string) (net.Conn, error) { return n.dial(ctx, "", address) }
		target, options = "passthrough:///"+target, append(options, grpc.WithContextDialer(dial))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestGRPCAndConnectAgree sends the same to both; codes have the same numbers.
func TestGRPCAndConnectAgree(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		ctx := context.Background()
		overGRPC := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
		overConnect := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
		for name, in := range map[string]*aliquotv1.CheckRequest{
			"ordinary":      {Attributes: map[string]string{"api_key": "k%s"}},
			"cost 0":        {Cost: proto.Int64(0)},
			"cost too high": {Cost: proto.Int64(1 << 62)},
			"never":         {Attributes: map[string]string{"api_key": "k"}, Cost: proto.Int64(1000)},
			"long value":    {Attributes: map[string]string{"api_key": strings.Repeat("v", 5000)}},
		} {
			mine := proto.Clone(in).(*aliquotv1.CheckRequest)
			mine.Namespace = "grpc"
			a, errA := overGRPC.Check(ctx, mine)
			mine.Namespace = "connect"
			b, errB := overConnect.Check(ctx, mine)
			if uint32(status.Code(errA)) != uint32(codeOf(errB)) {
				t.Errorf("%s: gRPC says %v, Connect says %v", name, errA, errB)
			}
			if errA == nil {
				if (a.GetDecisionId() == "") != a.GetAllowed() || !a.GetAllowed() && a.GetDecisionId() == b.GetDecisionId() {
					t.Errorf("%s: decision ids %q and %q", name, a.GetDecisionId(), b.GetDecisionId())
				}
				a.DecisionId, b.DecisionId = "", ""
			}
			if errA == nil && !proto.Equal(a, b) {
				t.Errorf("%s: gRPC answers %v, Connect %v", name, a, b)
			}
		}
	})
}

func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// rawBytes sends bytes as a message.
type rawBytes struct{}

func (rawBytes) Name() string                       { return "proto" }
func (rawBytes) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawBytes) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }

func TestUnreadableProtobufIsTheClientsFault(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		conn := dialGRPC(t, d)
		entry := protowire.AppendTag(nil, 1, protowire.BytesType)
		entry = protowire.AppendString(entry, "api_key")
		entry = protowire.AppendTag(entry, 2, protowire.BytesType)
		entry = protowire.AppendString(entry, "\xff\xfe")
		invalidUTF8 := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
		for name, raw := range map[string][]byte{
			"invalid UTF-8":     invalidUTF8,
			"truncated":         {0x0a, 0x10, 0x01},
			"11-byte varint":    {0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
			"length beyond all": {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		} {
			var out []byte
			err := conn.Invoke(context.Background(), "/aliquot.v1.LimiterService/Check", &raw, &out, grpc.ForceCodec(rawBytes{}))
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s over gRPC: %v", name, err)
			}
			resp, err := clientOf(d).Post("http://"+d.Addr()+"/aliquot.v1.LimiterService/Check", "application/proto", strings.NewReader(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s over Connect: %s", name, resp.Status)
			}
		}
	})
}

func TestBatch(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		client := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
		for _, n := range []int{0, 1001} {
			in := &aliquotv1.CheckBatchRequest{Requests: make([]*aliquotv1.CheckRequest, n)}
			for i := range in.Requests {
				in.Requests[i] = &aliquotv1.CheckRequest{}
			}
			if _, err := client.CheckBatch(context.Background(), in); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("a batch of %d: %v", n, err)
			}
		}
		in := &aliquotv1.CheckBatchRequest{}
		for i := range 1000 {
			r := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": fmt.Sprint("k", i%5)}}
			if i%100 == 7 {
				r.Cost = proto.Int64(0)
			}
			in.Requests = append(in.Requests, r)
		}
		began := time.Now()
		out, err := client.CheckBatch(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		allowed, denied, invalid := 0, 0, 0
		for i, r := range out.GetResults() {
			switch {
			case r.GetError() != "":
				invalid++
				if i%100 != 7 || r.GetResponse() != nil {
					t.Errorf("result %d: %v", i, r)
				}
			case r.GetResponse().GetAllowed():
				allowed++
			default:
				denied++
			}
		}
		// Five clients of 50 here, and what 10/2 a second refill meanwhile.
		if invalid != 10 || allowed < 250 || float64(allowed) > 255+25*took.Seconds() || allowed+denied+invalid != 1000 {
			t.Errorf("allowed %d, denied %d, invalid %d in %v", allowed, denied, invalid, took)
		}
	})
}
