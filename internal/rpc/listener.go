package rpc

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/net/netutil"
)

// Listener accepts at most MaxConnections connections at a time, and counts them. One that
// is at its limit accepts nothing more, which nobody would hear of: further clients connect,
// for the system takes their connections, and wait. Safe for concurrent use.
type Listener struct {
	net.Listener
	flag string
	open atomic.Int64

	mu    sync.Mutex
	peers map[netip.Addr]int // open connections of each address
}

// newListener limits a listener that is named by a flag.
func newListener(flag string, l net.Listener) *Listener {
	return &Listener{Listener: netutil.LimitListener(l, MaxConnections), flag: flag, peers: map[netip.Addr]int{}}
}

// Open is how many connections are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Accept waits for the next connection of a peer that has fewer than MaxPeerConnections open; others are
// closed at once.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := addressOf(c)
		if !l.count(peer) {
			c.Close()
			continue
		}
		return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.uncount(peer) })}, nil
	}
}

// addressOf is the address of a connection's peer; the zero value for one that has none.
func addressOf(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// count counts a connection, and reports false if its peer has too many.
func (l *Listener) count(peer netip.Addr) bool {
	if peer.IsValid() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.peers[peer] >= MaxPeerConnections {
			return false
		}
		l.peers[peer]++
	}
	l.open.Add(1)
	return true
}

func (l *Listener) uncount(peer netip.Addr) {
	l.open.Add(-1)
	if !peer.IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// Flag is the flag that names it.
func (l *Listener) Flag() string { return l.flag }
