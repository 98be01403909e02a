// Package testaddr gives tests addresses that no other process uses: a test that stops a server and starts it again at
// its address must find the port free, although other programs of the machine take ports meanwhile.
package testaddr

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
)

// hosts is the number of addresses that this process has returned.
var hosts atomic.Uint32

// Host returns a loopback address that neither this process nor another one has returned. No outgoing connection takes
// a port of it, because those leave from 127.0.0.1. It is safe for concurrent use. On systems where only 127.0.0.1 is
// loopback it returns that.
func Host() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return host(uint32(os.Getpid()), hosts.Add(1)-1)
}

const (
	// perProcess is the number of addresses of one process; more servers than that share them.
	perProcess = 1 << 8
	// processes is the number of process ids with addresses of their own.
	processes = 1 << 14
)

// host returns the n-th address of a process, from 127.64.0.0 on.
func host(process, n uint32) string {
	at := process%processes*perProcess + n%perProcess
	return netip.AddrFrom4([4]byte{127, 64 | byte(at>>16), byte(at >> 8), byte(at)}).String()
}

// Free returns a listen address of any free port at a host of its own.
func Free() string { return Host() + ":0" }

// Ports returns n addresses with ports, each at a host of its own. Nothing listens on them.
func Ports(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", Free())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
