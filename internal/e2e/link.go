package e2e

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Link is a TCP proxy before one server, which can be cut. Bytes that are sent over a cut link wait, as in a real
// network: connections stay open, and nothing is lost. It is safe for concurrent use.
type Link struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	passes *sync.Cond // signals that a direction was cut or restored, or that the link was closed
	cut    [2]bool    // by direction
	lag    time.Duration
	closed bool
	conns  map[net.Conn]bool
}

// direction is one way of a link.
type direction int

const (
	Requests direction = iota // from the client to the server
	Answers                   // from the server to the client
)

// NewLink opens a link to a server. The caller closes it.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, target: target, conns: map[net.Conn]bool{}}
	l.passes = sync.NewCond(&l.mu)
	go l.accept()
	return l, nil
}

// Address returns the address that clients of the link connect to.
func (l *Link) Address() string { return l.listener.Addr().String() }

// cutOff stops directions of the link until restore.
func (l *Link) cutOff(directions ...direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range directions {
		l.cut[d] = true
	}
}

// restore opens both directions again. The bytes that waited are sent.
func (l *Link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = [2]bool{}
	l.passes.Broadcast()
}

// Delay delays all bytes that the server sends from now on.
func (l *Link) Delay(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lag = by
}

// due returns when bytes of a direction that come now are to arrive.
func (l *Link) due(d direction) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == Requests {
		return time.Time{}
	}
	return time.Now().Add(l.lag)
}

// Close ends the link and all its connections.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.listener.Close()
	for c := range l.conns {
		c.Close()
	}
	l.passes.Broadcast()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		go l.connect(client)
	}
}

// connect reaches the server for a client once requests pass.
func (l *Link) connect(client net.Conn) {
	defer client.Close()
	if !l.add(client) || !l.await(Requests) {
		return
	}
	defer l.remove(client)
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.add(server) {
		return
	}
	defer l.remove(server)
	var both sync.WaitGroup
	both.Go(func() { l.forward(server, client, Requests) })
	both.Go(func() { l.forward(client, server, Answers) })
	both.Wait()
}

// forward copies one direction of a connection until either side ends it.
func (l *Link) forward(to, from net.Conn, d direction) {
	type part struct {
		bytes []byte
		due   time.Time
	}
	parts := make(chan part, 1024) // more than arrive within any delay
	var writer sync.WaitGroup
	writer.Go(func() {
		defer to.Close()
		for p := range parts {
			Pause(context.Background(), time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				from.Close() // which ends the reads, and so the parts
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !l.await(d) {
			break
		}
		if n > 0 {
			parts <- part{bytes: append([]byte(nil), buffer[:n]...), due: l.due(d)}
		}
		if err != nil {
			if err != io.EOF {
				from.Close()
			}
			break
		}
	}
	close(parts)
	writer.Wait()
}

// await waits while a direction is cut. It reports false if the link was closed.
func (l *Link) await(d direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cut[d] && !l.closed {
		l.passes.Wait()
	}
	return !l.closed
}

// add adds a connection, which Close then closes. It reports false if the link was closed.
func (l *Link) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.conns[c] = true
	}
	return !l.closed
}

func (l *Link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
