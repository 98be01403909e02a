package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// sequence is keys that come in a known order.
func sequence(ks ...uint32) keys {
	k := keys{drawn: make([]uint32, drawnKeys)}
	copy(k.drawn[1:], ks)
	return k
}

func TestARequestIsWhatTheServiceReads(t *testing.T) {
	c := DefaultConfig()
	c.Attributes, c.Batch = []string{"api_key=a{key}z", "endpoint=/v1"}, 3
	k := sequence(7, 123, maxKeys-1)
	var got aliquotv1.CheckBatchRequest
	if err := proto.Unmarshal(newMold(&c).pour(nil, &k), &got); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a00000007z", "a00000123z", "a99999999z"} {
		attributes := got.GetRequests()[i].GetAttributes()
		if attributes["api_key"] != want || attributes["endpoint"] != "/v1" || len(attributes) != 2 {
			t.Errorf("check %d: %v", i, attributes)
		}
	}
	c.Batch = 1
	var single aliquotv1.CheckRequest
	if err := proto.Unmarshal(newMold(&c).pour(nil, &k), &single); err != nil || single.GetAttributes()["endpoint"] != "/v1" {
		t.Errorf("%v: %v", err, &single)
	}
}

func TestACallOverHTTP1IsWellFormed(t *testing.T) {
	for _, protocol := range []Protocol{Connect, HTTP} {
		c := DefaultConfig()
		c.Protocol, c.Address = protocol, "http://host:1"
		k := sequence(42)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(overHTTP1(&c).pour(nil, &k))))
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			t.Fatal(err)
		}
		if r.Host != "host:1" || !strings.Contains(body.String()+r.Header.Get("X-API-Key"), "k00000042") {
			t.Errorf("%s: %+v %q", protocol, r, body.String())
		}
	}
}

func TestAnswersAreCounted(t *testing.T) {
	c := DefaultConfig()
	c.Batch = 4
	results := []*aliquotv1.CheckBatchResult{
		{Response: &aliquotv1.CheckResponse{Allowed: true, RuleId: "r", Limit: 7, Mode: "local", Reason: "x"}},
		{Response: &aliquotv1.CheckResponse{Mode: "store", DecisionId: "d"}},
		{Response: &aliquotv1.CheckResponse{Allowed: true, Mode: "tomorrow's"}},
		{Response: &aliquotv1.CheckResponse{}},
	}
	message, err := proto.Marshal(&aliquotv1.CheckBatchResponse{Results: results})
	if err != nil {
		t.Fatal(err)
	}
	var all tally
	if err := all.scan(&c, message); err != nil {
		t.Fatal(err)
	}
	if all.allowed != 2 || all.denied != 2 || all.calls != 1 || all.modes[modeIndex([]byte("local"))] != 1 ||
		all.modes[modeIndex([]byte("store"))] != 1 || all.modes[len(modes)-1] != 1 {
		t.Errorf("%+v", all)
	}
	results[0] = &aliquotv1.CheckBatchResult{Error: "no such thing"}
	if message, err = proto.Marshal(&aliquotv1.CheckBatchResponse{Results: results}); err != nil {
		t.Fatal(err)
	}
	if err := all.scan(&c, message); err == nil {
		t.Error("a check without an answer is not told")
	}
	if err := all.scan(&c, message[:len(message)-1]); err == nil {
		t.Error("half an answer is not told")
	}
}

func TestKeysAreDrawnAsConfigured(t *testing.T) {
	c := DefaultConfig()
	c.Keys, c.HotKey = 1000, 25
	count := map[uint32]int{}
	for _, k := range drawKeys(&c) {
		count[k]++
	}
	if hot := float64(count[1000]) / drawnKeys; hot < .24 || hot > .26 {
		t.Errorf("the hot key has %.3f of the checks", hot)
	}
	if count[0] < 20*count[100] || count[999] == 0 {
		t.Errorf("not Zipf's: %d, %d, %d", count[0], count[100], count[999])
	}
	c.Zipf, c.HotKey = 0, 0
	clear(count)
	r := run{config: &c, drawn: drawKeys(&c)}
	alike := r.newKeys()
	for range drawnKeys {
		count[alike.take()]++
	}
	if len(count) != 1000 || count[0] > 2*count[999] {
		t.Errorf("not alike: %d keys, %d, %d", len(count), count[0], count[999])
	}
}

func TestAConfigurationThatCannotMeasureIsRefused(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"--protocol":    func(c *Config) { c.Protocol = "smtp" },
		"--target":      func(c *Config) { c.Address = "" },
		"--connections": func(c *Config) { c.Connections = 0 },
		"--workers":     func(c *Config) { c.Workers = 1 },
		"HTTP/1.1":      func(c *Config) { c.Workers = maxConnections + 1 },
		"--batch":       func(c *Config) { c.Batch = maxBatch + 1 },
		"grpc":          func(c *Config) { c.Protocol, c.Batch = HTTP, 2 },
		"--descriptors": func(c *Config) { c.Descriptors = 2 },
		"--keys":        func(c *Config) { c.Keys = 0 },
		"--zipf":        func(c *Config) { c.Zipf = 1 },
		"--zipf +Inf":   func(c *Config) { c.Zipf = math.Inf(1) }, // whose draw never ends
		"--rate +Inf":   func(c *Config) { c.Rate = math.Inf(1) }, // which would be none at all
		"--rate 1e-12":  func(c *Config) { c.Rate = 1e-12 },
		`"nowhere"`:     func(c *Config) { c.Address = "nowhere" },
		`"https://h:1"`: func(c *Config) { c.Address = "https://h:1" },
		`"unix://h"`:    func(c *Config) { c.Address = "unix://h" },
		"--hot-key":     func(c *Config) { c.HotKey = 101 },
		"--rate":        func(c *Config) { c.Rate = -1 },
		"--duration":    func(c *Config) { c.Duration = 0 },
		"--attr":        func(c *Config) { c.Attributes = []string{"a=1\r\nb: 2"} },
	} {
		c := DefaultConfig()
		c.Address = "127.0.0.1:1"
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestAStreamsMessageNamesItsChecks(t *testing.T) {
	c := DefaultConfig()
	c.Protocol, c.Batch, c.Attributes = Stream, 3, []string{"api_key=a{key}"}
	m := overGRPC(&c)
	for _, number := range []uint32{0, 1, 300, maxWorkers - 1} {
		k := sequence(7, 8, 9)
		call := m.pour([]byte("before"), &k)[len("before"):]
		m.name(call, number)
		var got aliquotv1.CheckStreamRequest
		if err := proto.Unmarshal(call[grpcHead:], &got); err != nil {
			t.Fatal(err)
		}
		for i, r := range got.GetRequests() {
			if want := uint64(number)*idsOfCall + uint64(i); r.GetId() != want || r.GetRequest().GetAttributes()["api_key"] != "a0000000"+string(rune('7'+i)) {
				t.Errorf("call %d, check %d: %v", number, i, r)
			}
		}
		if id, err := firstID(call[grpcHead:]); err != nil || id/idsOfCall != uint64(number) || len(got.GetRequests()) != 3 {
			t.Errorf("call %d: %d, %v", number, id, err)
		}
	}
}

// A message may come in parts, and several at once.
func TestAStreamsAnswersAreCutApart(t *testing.T) {
	c := DefaultConfig()
	c.Protocol, c.Warmup, c.Duration = Stream, 0, time.Hour
	r := &run{config: &c, began: time.Now(), until: time.Hour}
	g := &grpcConn{lane: r.newLane(), long: &stream{open: true}, calls: map[uint32]*grpcCall{}}
	var wire []byte
	for n := range uint32(3) {
		g.calls[n] = &grpcCall{number: n}
		answer, err := proto.Marshal(&aliquotv1.CheckStreamResponse{Answers: []*aliquotv1.StreamedAnswer{
			{Id: uint64(n) * idsOfCall, Response: &aliquotv1.CheckResponse{Allowed: n > 0, Mode: "local"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		wire = append(binary.BigEndian.AppendUint32(append(wire, 0), uint32(len(answer))), answer...)
	}
	for i := range wire {
		g.long.answer = append(g.long.answer, wire[i])
		if i == len(wire)/2 || i == len(wire)-1 {
			if err := g.messages(false, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if g.allowed != 2 || g.denied != 1 || len(g.done) != 3 || len(g.calls) != 0 || len(g.long.answer) != 0 || len(g.errors) != 0 {
		t.Errorf("%+v, %d done, %v", g.tally, len(g.done), g.errors)
	}
	g.long.answer = wire[:len(wire)/3]
	if err := g.messages(false, nil); err == nil {
		t.Error("an answer to nothing")
	}
	if err := g.messages(true, nil); err == nil {
		t.Error("a stream that the server ends")
	}
}
