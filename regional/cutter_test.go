package regional

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cutter is a way to a Redis that can be cut for one daemon alone.
type cutter struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     []net.Conn
	isCut    bool
}

// newCutter makes a way to a Redis, which is open.
func newCutter(t *testing.T, r *redisServer) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: r.url()[len("redis://"):]}
	t.Cleanup(func() {
		l.Close()
		c.cut()
	})
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			c.join(from)
		}
	}()
	return c
}

// join connects a client through, unless the way is cut.
func (c *cutter) join(from net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, err := net.Dial("tcp", c.target)
	if err != nil || c.isCut {
		from.Close()
		return
	}
	c.open = append(c.open, from, to)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			io.Copy(way[1], way[0])
			way[1].Close()
		}()
	}
}

func (c *cutter) url() string { return "redis://" + c.listener.Addr().String() }

// cut ends all connections, and lets none begin.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

// heal lets connections begin again.
func (c *cutter) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}
