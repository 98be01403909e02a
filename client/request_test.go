package client

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestMessagesAreReadable: however large requests are, no message is larger than a region
// reads, and each has at least one.
func TestMessagesAreReadable(t *testing.T) {
	const read = 4 << 20
	l := &liveStream{pending: map[uint64]chan<- *aliquotv1.StreamedAnswer{}, wake: make(chan struct{}, 1)}
	for _, size := range []int{100, 40 << 10, maxRequest - 2*fieldBytes - fieldBytes - len("a")} {
		in := &aliquotv1.CheckRequest{Attributes: map[string]string{"a": strings.Repeat("v", size)}}
		if err := sendable(in); err != nil {
			t.Fatal(err)
		}
		for range 3 * maxAsked {
			if _, _, err := l.ask(in); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent, messages := 0, 0
	for requests := l.next(); len(requests) > 0; requests = l.next() {
		sent += len(requests)
		messages++
		if n := proto.Size(&aliquotv1.CheckStreamRequest{Requests: requests}); n > read || len(requests) > maxAsked {
			t.Errorf("a message of %d requests, %d bytes", len(requests), n)
		}
	}
	if sent != 9*maxAsked || messages > 4*maxAsked {
		t.Errorf("%d requests in %d messages", sent, messages)
	}
}

// TestSizesAreNotTooSmall, by which messages are kept readable.
func TestSizesAreNotTooSmall(t *testing.T) {
	for _, in := range []*aliquotv1.CheckRequest{
		nil, {Cost: proto.Int64(-1)}, {Namespace: strings.Repeat("n", 1000)},
		{Attributes: map[string]string{"": "", "a": "b", strings.Repeat("x", 300): strings.Repeat("y", 70_000)}},
		{Costs: map[string]int64{"a": -1, "bc": 1 << 60}, Cost: proto.Int64(1 << 60)},
	} {
		whole := proto.Size(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{Id: 1 << 63, Request: in}}})
		if n := sizeOf(in); n < whole {
			t.Errorf("%d bytes are counted of %d", n, whole)
		}
	}
}
