package regional

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
)

// network carries connections within a testing/synctest bubble. A goroutine that waits for one of them lets the
// bubble's clock go on, so a daemon that runs in a bubble takes no time but what its timers say: what a test of it
// counts is exact however slow the machine is.
type network struct {
	t     testing.TB
	began time.Time

	mu        sync.Mutex
	listeners map[string]*pipeListener
}

// networks are the networks of tests that run now.
var networks sync.Map // of testing.TB, *network

// inNetwork runs a test in a bubble with a network of its own, which the test's leaders and daemons are in. Its
// daemons have the memory store.
func inNetwork(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(20*time.Minute + 12345*time.Microsecond) // a bubble begins at midnight, when every window does
		n := &network{t: t, began: time.Now(), listeners: map[string]*pipeListener{}}
		networks.Store(t, n)
		defer networks.Delete(t)
		test(t)
	})
}

// networkOf returns the network of a test, or nil if its leaders and daemons are in the machine's own.
func networkOf(t testing.TB) *network {
	n, _ := networks.Load(t)
	out, _ := n.(*network)
	return out
}

// oneCase runs one case of a test in a bubble, which can have no subtests.
func oneCase(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	before := t.Failed()
	defer func() {
		if t.Failed() && !before {
			t.Logf("in the case %q", name)
		}
	}()
	test(t)
}

// now is the bubble's clock as a boot clock. It begins late enough for every "long ago".
func (n *network) now() budget.Instant { return 1000*second + budget.Instant(time.Since(n.began)) }

// listen returns a listener of the network with a new address.
func (n *network) listen() *pipeListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &pipeListener{
		network: n, conns: make(chan net.Conn), closed: make(chan struct{}),
		addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: len(n.listeners) + 1},
	}
	n.listeners[l.addr.String()] = l
	return l
}

// dial connects to a listener.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nothing listens on %s", address)
	}
	here, there := net.Pipe()
	select {
	case l.conns <- &pipeConn{Conn: there}:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// client returns a client of the network's servers, which keeps no connection open.
func (n *network) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true}}
}

// enter gives a daemon's configuration the network's clock and client.
func (n *network) enter(c *Config) {
	if c.Now == nil {
		c.Now = n.now
	}
	c.HTTPClient = n.client()
}

// join moves a daemon that does not run yet into the network.
func (n *network) join(d *Daemon) {
	d.sockets.close()
	for _, socket := range d.sockets.open() {
		socket.Listener = n.listen()
	}
}

// serve serves a leader until the test ends.
func (n *network) serve(l *leader) {
	l.clock = func() int64 { return int64(n.now()) / 1000 }
	at := n.listen()
	l.where = at.addr.String()
	server := &http.Server{Handler: l}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(at)
	}()
	n.t.Cleanup(func() { server.Close(); <-served })
}

// pipeListener is a listener of a network.
type pipeListener struct {
	network *network
	conns   chan net.Conn
	closed  chan struct{}
	addr    net.Addr
	once    sync.Once
}

// Accept waits for the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr returns the listener's address.
func (l *pipeListener) Addr() net.Addr { return l.addr }

// pipeConn is the server's end of a connection. It has an address, as that of a socket has.
type pipeConn struct{ net.Conn }

// RemoteAddr returns an address of this machine.
func (c *pipeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// clientOf returns a client that reaches a daemon.
func clientOf(d *Daemon) *http.Client { return &http.Client{Transport: transportOf(d)} }

// transportOf returns the transport of such a client.
func transportOf(d *Daemon) http.RoundTripper {
	if l, ok := d.sockets[flagListen].Listener.(*pipeListener); ok {
		return l.network.client().Transport
	}
	return http.DefaultTransport
}
