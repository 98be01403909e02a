package rpc

import (
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// BoundWrites returns l with connections that end a write which has taken timeout or longer, and twice timeout at most.
// A deadline that is set on a connection takes the place of that bound until it is removed. http.Server.WriteTimeout
// would set a deadline for each request and remove it again, which costs a hundredth of a check. l's connections must
// not be written to by several goroutines at a time.
func BoundWrites(l net.Listener, timeout time.Duration) net.Listener {
	return &writeBoundListener{l, timeout}
}

type writeBoundListener struct {
	net.Listener
	timeout time.Duration
}

// Accept waits for the next connection.
func (l *writeBoundListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writeBoundConn{Conn: c, timeout: l.timeout, began: time.Now()}, nil
}

// writeBoundConn is a connection whose writes are bounded.
type writeBoundConn struct {
	net.Conn
	timeout time.Duration
	began   time.Time
	// until is the deadline that Write has set, counted from began. 0: none is in force; others: the server has set one.
	until atomic.Int64
}

// others is the deadline of a connection whose server has set one. Write never finds it too near.
const others = math.MaxInt64

// Write writes p. It moves the deadline only if less than timeout is left of it.
func (c *writeBoundConn) Write(p []byte) (int, error) {
	if at := time.Since(c.began); time.Duration(c.until.Load())-at < c.timeout {
		until := at + 2*c.timeout
		if err := c.Conn.SetWriteDeadline(c.began.Add(until)); err != nil {
			return 0, err
		}
		c.until.Store(int64(until))
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline sets a deadline, or lets the usual bound hold again if t is zero.
func (c *writeBoundConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.until.CompareAndSwap(others, 0)
		return nil
	}
	c.until.Store(others)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *writeBoundConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// BoundStreams gives each call over HTTP/2 timeout until its answer has left. Over HTTP/1.1, where a call has its
// connection for itself, BoundWrites bounds it.
func BoundStreams(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // an error means that the stream has ended
		}
		next.ServeHTTP(w, r)
	})
}
