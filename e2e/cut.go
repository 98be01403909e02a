package e2e

import (
	"io"
	"net"
	"sync"
)

// cutter is a way to a server that can be cut for whoever goes by it, and for nobody else.
type cutter struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  []net.Conn
	isCut bool
}

// newCutter makes a way to a server, which is open.
func newCutter(target string) (*cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cutter{listener: l, target: target}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			c.join(from)
		}
	}()
	return c, nil
}

// address is where the way begins.
func (c *cutter) address() string { return c.listener.Addr().String() }

// join connects a client through, unless the way is cut.
func (c *cutter) join(from net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		from.Close()
		return
	}
	to, err := net.Dial("tcp", c.target)
	if err != nil {
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

// close ends the way for good.
func (c *cutter) close() {
	c.cut()
	c.listener.Close()
}
