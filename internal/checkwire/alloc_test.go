package checkwire

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// usual is a request as gateways send them, and usualAnswer what it gets.
func usual() Request {
	return Request{Cost: 1, Attributes: rules.AttributesOf(map[string]string{
		"api_key": "sk_live_0123456789", "endpoint": "/v1/orders", "method": "POST", "ip": "192.0.2.1",
	})}
}

func usualAnswer() Answer {
	return Answer{
		Allowed: true, RuleID: "per-key", Limit: 1000, Remaining: 712, ResetAfter: 288 * time.Millisecond, Mode: "local",
		Limits: []Limit{{
			Allowed: true, RuleID: "per-key", Limit: 1000, Remaining: 712, ResetAfter: 288 * time.Millisecond,
			Window: time.Second, Mode: "local", Algorithm: "token_bucket", Unit: "requests",
		}},
	}
}

const usualBatch = 100

func usualMessages() (request, batch, response, results []byte) {
	r, a := usual(), usualAnswer()
	for range usualBatch {
		batch, results = r.AppendToBatch(batch), a.AppendResult(results)
	}
	return r.Append(nil), batch, a.Append(nil), results
}

// TestNothingIsAllocated by reading and writing what a call repeats.
func TestNothingIsAllocated(t *testing.T) {
	request, batch, response, results := usualMessages()
	var requests Requests
	var answer Answer
	a := usualAnswer()
	out := make([]byte, 0, len(results))
	for name, do := range map[string]func(){
		"a request":  func() { requests.Reset(); requests.Read(request) },
		"a batch":    func() { requests.Reset(); ReadBatch(batch, requests.Read) },
		"an answer":  func() { a.Append(out[:0]) },
		"a result":   func() { a.AppendResult(out[:0]) },
		"a response": func() { answer.Read(response) },
		"results": func() {
			ReadResults(results, func(result []byte) bool { _, ok := answer.ReadResult(result); return ok })
		},
	} {
		if allocated := testing.AllocsPerRun(100, do); allocated > 0 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
	if len(requests.All) == 0 || answer.Mode != "local" {
		t.Errorf("read %+v, %+v", requests.All, answer)
	}
}

// Each benchmark is this package against the generated code, in one run.
func BenchmarkReadRequest(b *testing.B) {
	message, _, _, _ := usualMessages()
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		var requests Requests
		for b.Loop() {
			requests.Reset()
			if !requests.Read(message) {
				b.Fatal("odd")
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r aliquotv1.CheckRequest
			if err := proto.Unmarshal(message, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWriteAnswer(b *testing.B) {
	a := usualAnswer()
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			out = a.Append(out[:0])
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			var err error
			if out, err = (proto.MarshalOptions{}).MarshalAppend(out[:0], a.Message()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadResponse(b *testing.B) {
	_, _, message, _ := usualMessages()
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		var a Answer
		for b.Loop() {
			if !a.Read(message) {
				b.Fatal("odd")
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r aliquotv1.CheckResponse
			if err := proto.Unmarshal(message, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
