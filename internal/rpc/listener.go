package rpc

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/net/netutil"
)

// Listener accepts at most MaxConnections connections at a time and counts them. At its limit it
// accepts no more, which clients do not notice: they connect, because the operating system accepts
// their connections, and then wait. Safe for concurrent use.
type Listener struct {
	net.Listener
	flag string
	open atomic.Int64

	mu    sync.Mutex
	peers map[netip.Addr]int // number of open connections of each address
}

// newListener limits a listener that a flag names.
func newListener(flag string, l net.Listener) *Listener {
	return &Listener{Listener: netutil.LimitListener(l, MaxConnections), flag: flag, peers: map[netip.Addr]int{}}
}

// Open returns how many connections are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Accept waits for the next connection of a peer with fewer than MaxPeerConnections open ones. It
// closes connections of other peers at once.
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

// addressOf returns the address of a connection's peer, or the zero value if it has none.
func addressOf(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// count counts a connection. It returns false if the peer has too many.
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

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// Flag returns the flag that names the listener.
func (l *Listener) Flag() string { return l.flag }
