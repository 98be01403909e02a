package rpc

import (
	"net"
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
}

// newListener limits a listener that is named by a flag.
func newListener(flag string, l net.Listener) *Listener {
	return &Listener{Listener: netutil.LimitListener(l, MaxConnections), flag: flag}
}

// Open is how many connections are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
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
