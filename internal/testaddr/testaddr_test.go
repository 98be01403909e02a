package testaddr

import (
	"net"
	"net/netip"
	"testing"
)

// Two processes, and two servers of one, are given different addresses, all of them loopback.
func TestEachServerHasItsOwnAddress(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, process := range []uint32{1, 2, 16383, 4194304 + 5} {
		for n := range uint32(perProcess) {
			at := host(process, n)
			if seen[at] || !netip.MustParseAddr(at).IsLoopback() {
				t.Fatalf("%s: address %d of process %d", at, n, process)
			}
			seen[at] = true
		}
	}
}

// A server can listen there.
func TestAServerCanListen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", Free())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
