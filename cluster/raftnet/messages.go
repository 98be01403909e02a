package raftnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"aliquot/cluster/msgpack"
	"aliquot/cluster/state"
)

const (
	// MaxAppendEntries is how many log entries a message may have.
	MaxAppendEntries = 64
	// maxMessage bounds a message: as many entries as it may have, each as large as it may be.
	maxMessage = MaxAppendEntries*state.MaxCommandBytes + 1<<20
	// maxAnswer bounds an answer, and the head of a snapshot.
	maxAnswer = 1 << 20
	// largeMessage is the size above which only one message is received at a time, for largeTimeout at most. The
	// leader alone has reason to send such messages, and it gives up sooner.
	largeMessage = 1 << 20
	largeTimeout = 2 * raftIOTimeout
	// kindSnapshot is the kind of a message whose snapshot follows it.
	kindSnapshot = 2
)

var (
	errLarge       = fmt.Errorf("%w: it is too large", msgpack.ErrBeyond)
	errLargeOther  = errors.New("another large message is being received")
	errBehindLarge = errors.New("the bytes after the head of a snapshot that is too large are not a message")
)

// messages follows what comes on a connection, before hashicorp/raft decodes it: the library makes room for as much as
// a message announces. Requests have a byte of their kind before each value. Answers are values.
type messages struct {
	requests bool
	scan     msgpack.Scanner
	within   bool // the value of a request: its kind was read
	kind     byte
	head     []byte // of a snapshot
	raw      int64  // bytes of a snapshot that are still to come
	over     bool   // nothing more may come
	size     int64  // of the value so far
}

// look returns how many of the next bytes may be read, and an error if what follows them is no message of a server's.
func (m *messages) look(data []byte) (read int, err error) {
	for read < len(data) {
		rest, step := data[read:], 1
		switch {
		case m.over:
			return read, errBehindLarge
		case m.raw > 0:
			step = int(min(m.raw, int64(len(rest))))
			m.raw -= int64(step)
		case m.requests && !m.within:
			m.kind, m.within = rest[0], true
		default:
			n, whole, err := m.scan.Scan(rest)
			if err == nil {
				err = m.value(rest[:n], whole)
			}
			if err != nil {
				return 0, err
			}
			step = n
		}
		read += step
	}
	return read, nil
}

// value takes the next bytes of a value.
func (m *messages) value(data []byte, whole bool) error {
	m.size += int64(len(data))
	snapshot := m.requests && m.kind == kindSnapshot
	if m.size > maxMessage || m.size > maxAnswer && (snapshot || !m.requests) {
		return errLarge
	}
	if snapshot {
		m.head = append(m.head, data...)
	}
	if !whole {
		return nil
	}
	m.within, m.size = false, 0
	if snapshot {
		var head struct{ Size int64 }
		err := codec.NewDecoder(bytes.NewReader(m.head), &codec.MsgpackHandle{}).Decode(&head)
		m.head, m.raw = nil, head.Size
		m.over = err != nil || head.Size > state.MaxSnapshotBytes // the guard answers without reading it
	}
	return nil
}

// watched is a connection whose messages are looked at. Its Read is for one goroutine at a time.
type watched struct {
	net.Conn
	layer    *Layer
	messages messages
	ended    bool
	holds    atomic.Bool // the layer's only place for a large message
}

// Read implements io.Reader. A message that is refused ends the connection.
func (c *watched) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	read, beyond := c.messages.look(p[:n])
	if beyond == nil {
		beyond = c.alone()
	}
	if beyond == nil {
		return n, err
	}
	c.ended = true
	if beyond == errBehindLarge && read > 0 { // the guard refuses the head, and answers
		return read, nil
	}
	c.layer.refuse(fmt.Errorf("%w (from %s)", beyond, c.RemoteAddr()))
	return 0, io.EOF // raft's transport would log any other error beside that
}

// alone waits until no other large message is received, if this is one.
func (c *watched) alone() error {
	switch large := c.messages.size > largeMessage; {
	case large && !c.holds.Load():
		patience := time.NewTimer(largeTimeout)
		defer patience.Stop()
		select {
		case c.layer.large <- struct{}{}:
			c.holds.Store(true)
		case <-patience.C:
			return errLargeOther
		}
		_ = c.SetReadDeadline(time.Now().Add(largeTimeout)) // an error means that the connection has ended
	case !large && c.release():
		_ = c.SetReadDeadline(time.Time{})
	}
	return nil
}

// release gives the place for a large message back, and reports whether the connection had it.
func (c *watched) release() bool {
	if !c.holds.CompareAndSwap(true, false) {
		return false
	}
	<-c.layer.large
	return true
}
