package api

import (
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// sameConn is a stream on which the same message comes again and again.
type sameConn struct {
	message []byte
	left    int
}

func (c *sameConn) receive(x *rawCall) error {
	if c.left == 0 {
		return io.EOF
	}
	c.left--
	x.message = append(x.message, c.message...)
	return x.read()
}

func (c *sameConn) send(x *rawCall) error {
	x.done()
	return nil
}

func (c *sameConn) abandon() bool { return true }

func (c *sameConn) peer() string { return "" }

// BenchmarkStreamHeld is messages of one check of a held key, without gRPC.
func BenchmarkStreamHeld(b *testing.B) {
	s := serviceOf(b, heldRules)
	message, err := proto.Marshal(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{Id: 1, Request: &aliquotv1.CheckRequest{
		Attributes: map[string]string{"domain": "bench", "tenant": "a"},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	if err := s.checkStream(b.Context(), &sameConn{message: message, left: b.N}); err != nil {
		b.Fatal(err)
	}
}
