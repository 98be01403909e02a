package client

import (
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestQueueIsBounded: requests whose callers are gone do not pile up while nothing can be
// sent; the others keep their order.
func TestQueueIsBounded(t *testing.T) {
	l := &liveStream{pending: map[uint64]chan<- *aliquotv1.StreamedAnswer{}, wake: make(chan struct{}, 1)}
	const each = 1000
	var waiting []uint64
	longest := 0
	for i := range 8 * maxPending {
		id, _, err := l.ask(&aliquotv1.CheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if i%each == 0 {
			waiting = append(waiting, id)
		} else {
			l.forget(id)
		}
		longest = max(longest, len(l.queue))
	}
	if most := maxAsked + 2*(len(waiting)+1) + 1; longest > most {
		t.Errorf("%d requests in the queue, of which %d at most are waited for; %d are bearable", longest, len(waiting), most)
	}
	var sent []uint64
	for requests := l.next(); len(requests) > 0; requests = l.next() {
		for _, r := range requests {
			sent = append(sent, r.GetId())
		}
	}
	if len(sent) != len(waiting) {
		t.Fatalf("%d requests were sent of %d", len(sent), len(waiting))
	}
	for i, id := range waiting {
		if sent[i] != id {
			t.Fatalf("request %d came where %d was asked", sent[i], id)
		}
	}
}

// TestARequestIsItsCallersAgain: what leaves after a call has returned is what was asked,
// whatever its caller has made of the request since.
func TestARequestIsItsCallersAgain(t *testing.T) {
	l := &liveStream{pending: map[uint64]chan<- *aliquotv1.StreamedAnswer{}, wake: make(chan struct{}, 1)}
	asked := &aliquotv1.CheckRequest{Namespace: "n", Attributes: map[string]string{"api_key": "k"}, Cost: proto.Int64(3)}
	want := proto.Clone(asked)
	if _, _, err := l.ask(asked); err != nil {
		t.Fatal(err)
	}
	asked.Namespace, asked.Attributes["api_key"], asked.Cost = "other", "other", nil
	raw, err := proto.Marshal(&aliquotv1.CheckStreamRequest{Requests: l.next()})
	if err != nil {
		t.Fatal(err)
	}
	var sent aliquotv1.CheckStreamRequest
	if err := proto.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	if len(sent.GetRequests()) != 1 || !proto.Equal(sent.GetRequests()[0].GetRequest(), want) {
		t.Errorf("sent is %v, asked was %v", &sent, want)
	}
}
