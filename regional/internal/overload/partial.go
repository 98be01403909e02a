package overload

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"aliquot/internal/rpc"
)

// Bounds on the messages over gRPC that have begun and are not whole. grpc-go keeps their bytes, and lets the client send
// all that a message announces.
const (
	// maxPartial caps the memory of messages over gRPC that are not whole, in bytes. Where there is no room, the
	// connection that holds most is closed.
	maxPartial = 64 << 20
	// partialFor is how long a message over gRPC may take to become whole. After that its connection is closed.
	partialFor = 10 * time.Second
	// partialStep is how much room a connection takes at once.
	partialStep = 64 << 10
	// costOfFrame is what the bytes of one frame cost beside their number.
	costOfFrame = 64
	// maxPartials caps the messages of one connection that are not whole: four times as many as it may have streams.
	maxPartials = 1024
)

// errPartial ends a connection whose messages that are not whole take the most memory, while there is no room.
var errPartial = errors.New("the messages that are not whole take too much memory")

// Partial bounds the memory of messages over gRPC of more than rpc.MaxUnweighed that are not whole. Safe for concurrent use.
type Partial struct {
	most int64 // the largest message; larger ones are refused when they are announced

	mu   sync.Mutex
	used int64
	held map[*partialConn]int64
}

// NewPartial returns the bound for messages of at most most bytes.
func NewPartial(most int64) *Partial { return &Partial{most: most, held: map[*partialConn]int64{}} }

// take takes so many bytes for a connection, or closes the one that holds most. It returns false if that is the same one.
func (p *Partial) take(c *partialConn, bytes int64) bool {
	for {
		p.mu.Lock()
		if p.used+bytes <= maxPartial {
			p.used += bytes
			p.held[c] += bytes
			p.mu.Unlock()
			return true
		}
		largest, most := c, p.held[c]+bytes
		for other, held := range p.held {
			if held > most {
				largest, most = other, held
			}
		}
		p.mu.Unlock()
		_ = largest.Close()
		if largest == c {
			return false
		}
	}
}

// give gives back what a connection holds above want.
func (p *Partial) give(c *partialConn, want int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if spare := p.held[c] - want; spare > 0 {
		p.used -= spare
		p.held[c] = want
	}
	if p.held[c] == 0 {
		delete(p.held, c)
	}
}

// Listener returns l with the bound before its connections.
func (p *Partial) Listener(l net.Listener) net.Listener { return &partialListener{l, p} }

type partialListener struct {
	net.Listener
	bound *Partial
}

// Accept waits for the next connection.
func (l *partialListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return c, err
	}
	return &partialConn{Conn: c, bound: l.bound, in: frames{preface: 24}}, nil
}

// partialConn is a connection whose frames are followed in both directions.
type partialConn struct {
	net.Conn
	bound *Partial
	in    frames // for the goroutine that reads

	mu     sync.Mutex
	out    frames
	open   map[uint32]*partial // by stream
	cost   int64               // of the large ones among them
	held   int64               // of the bound
	timer  *time.Timer         // closes the connection if a message takes too long; nil: there is no large one
	closed bool
}

// partial is a message that is not whole.
type partial struct {
	head  []byte // until its length is known: 5 bytes
	left  int64
	cost  int64
	large bool
	began time.Time
}

// Read reads, and takes room for what was read.
func (c *partialConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return n, err
	}
	c.in.follow(p[:n], c.received)
	need, many := c.settle(), len(c.open) > maxPartials
	c.held += need
	c.mu.Unlock()
	switch {
	case many:
		_ = c.Close()
		return 0, errPartial
	case need == 0:
		return n, err
	case !c.bound.take(c, need):
		return 0, errPartial
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound.give(c, c.held) // another goroutine may have ended messages, or closed the connection, meanwhile
	return n, err
}

// Write writes, and forgets the messages of streams that end with it.
func (c *partialConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out.follow(p, c.sent)
	c.settle()
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Close closes the connection.
func (c *partialConn) Close() error {
	c.mu.Lock()
	c.closed, c.open, c.cost, c.held = true, nil, 0, 0
	c.settle()
	c.bound.give(c, 0)
	c.mu.Unlock()
	return c.Conn.Close()
}

// settle gives back the room that is not needed any more, starts or stops the timer, and returns how much room is still
// missing. The caller holds mu.
func (c *partialConn) settle() (need int64) {
	if c.cost == 0 && c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if c.cost > 0 && c.timer == nil {
		c.timer = time.AfterFunc(partialFor, c.late)
	}
	want := (c.cost + partialStep - 1) / partialStep * partialStep
	if want > c.held {
		return want - c.held
	}
	if want < c.held {
		c.bound.give(c, want)
		c.held = want
	}
	return 0
}

// late closes the connection if one of its messages takes too long.
func (c *partialConn) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil || c.closed {
		return
	}
	oldest := time.Now()
	for _, p := range c.open {
		if p.large && p.began.Before(oldest) {
			oldest = p.began
		}
	}
	if left := partialFor - time.Since(oldest); left > 0 {
		c.timer.Reset(left)
		return
	}
	_ = c.Conn.Close()
}

// received takes a part of a frame that came. The caller holds mu.
func (c *partialConn) received(f *frames, data []byte, whole bool) {
	if f.kind == frameData {
		if f.begins {
			if p := c.open[f.stream]; p != nil && p.large {
				p.cost += costOfFrame
				c.cost += costOfFrame
			}
		}
		c.message(f.stream, data)
	}
	if whole && f.ends() {
		c.forget(f.stream)
	}
}

// sent takes a part of a frame that is sent. The caller holds mu.
func (c *partialConn) sent(f *frames, _ []byte, whole bool) {
	if whole && f.ends() {
		c.forget(f.stream)
	}
}

// message takes the next bytes of the messages of a stream.
func (c *partialConn) message(stream uint32, data []byte) {
	const headBytes = 5
	for len(data) > 0 {
		p := c.open[stream]
		if p == nil {
			if len(data) >= headBytes && uint64(len(data)-headBytes) >= uint64(binary.BigEndian.Uint32(data[1:])) { // it is whole
				data = data[headBytes+binary.BigEndian.Uint32(data[1:]):]
				continue
			}
			if p = (&partial{}); c.open == nil {
				c.open = map[uint32]*partial{}
			}
			c.open[stream] = p
		}
		if len(p.head) < headBytes {
			n := min(headBytes-len(p.head), len(data))
			p.head, data = append(p.head, data[:n]...), data[n:]
			if len(p.head) < headBytes {
				return
			}
			p.left = int64(binary.BigEndian.Uint32(p.head[1:]))
			p.large = p.left > rpc.MaxUnweighed && p.left <= c.bound.most
			p.began = time.Now()
		}
		n := min(p.left, int64(len(data)))
		p.left, data = p.left-n, data[n:]
		if p.large {
			p.cost += n
			c.cost += n
		}
		if p.left == 0 {
			c.forget(stream)
		}
	}
}

// forget ends the message of a stream.
func (c *partialConn) forget(stream uint32) {
	if p := c.open[stream]; p != nil {
		c.cost -= p.cost
		delete(c.open, stream)
	}
}

// Kinds and flags of HTTP/2's frames.
const (
	frameData, frameHeaders, frameReset = 0, 1, 3
	flagEndStream, flagPadded           = 1, 8
	frameHead                           = 9
)

// frames follows the frames of HTTP/2 in a stream of bytes.
type frames struct {
	preface int // bytes that are still to come before the first frame
	head    []byte
	kind    byte
	flags   byte
	stream  uint32
	left    int  // bytes of the frame that are still to come
	padding int  // of which these are padding
	padded  bool // the length of the padding is still to come
	begins  bool // nothing of the frame was taken yet
}

// ends reports whether the frame ends its stream, for the direction of the frame or for both.
func (f *frames) ends() bool {
	return f.kind == frameReset || (f.kind == frameData || f.kind == frameHeaders) && f.flags&flagEndStream != 0
}

// follow calls take with each part of a frame, without padding. whole says that the frame ends with it.
func (f *frames) follow(data []byte, take func(f *frames, data []byte, whole bool)) {
	n := min(f.preface, len(data))
	f.preface, data = f.preface-n, data[n:]
	for len(data) > 0 {
		if len(f.head) < frameHead {
			n := min(frameHead-len(f.head), len(data))
			f.head, data = append(f.head, data[:n]...), data[n:]
			if len(f.head) < frameHead {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			f.kind, f.flags, f.stream = f.head[3], f.head[4], binary.BigEndian.Uint32(f.head[5:])&(1<<31-1)
			f.padding, f.padded, f.begins = 0, f.kind == frameData && f.flags&flagPadded != 0, true
		}
		if f.padded && f.left > 0 && len(data) > 0 {
			f.padding, f.padded, f.left, data = int(data[0]), false, f.left-1, data[1:]
		}
		n := min(f.left, len(data))
		content := max(0, min(n, f.left-f.padding))
		f.left -= n
		if f.left == 0 {
			f.head = f.head[:0]
		}
		take(f, data[:content], f.left == 0)
		data, f.begins = data[n:], false
	}
}
