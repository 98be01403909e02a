package regional

import (
	"container/list"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/internal/rpc"
)

// Bounds on what is read while the daemon is asked more than it can decide.
const (
	// doorWait is how long bytes may wait until they are read; the calls among older ones are refused.
	doorWait = decideWait
	// doorBytes is how much is read of a connection at once while others wait: some dozens of calls over gRPC.
	doorBytes = 4 << 10
	// bringsHTTP and bringsGRPC are as how many decisions a connection counts whose bytes are being read.
	bringsHTTP, bringsGRPC = 1, 16
	// decidingOfCore is how many decisions a core has under way, one core twice as many, maxDeciding in all.
	decidingOfCore = 64
	// answersOfRefusal is how many decisions there are for each that is refused, so that refusals take a few
	// per cent of the processor's time. refuseEvery is after how long one is refused in any case.
	answersOfRefusal = 8
	refuseEvery      = 10 * time.Millisecond
	// maxCredit bounds the decisions that count for later refusals.
	maxCredit = 8 * answersOfRefusal
)

// door lets connections read while intake has room for what they bring; others wait in the order in which they
// came. A call that nobody has read costs nothing, while one that was read costs its decoding and a place
// among those that the scheduler goes round. Bytes that waited longer than doorWait are read all the same, a
// few at a time, and their calls are refused. Safe for concurrent use.
type door struct {
	intake *rpc.Gate
	room   int64 // decisions under way beyond which nothing more is read

	mu      sync.Mutex
	coming  int64     // decisions that are expected of connections that were let in
	waiting list.List // of *doorConn
	late    list.List // of *doorConn: those that wait for their refusal
	credit  int64     // decisions for which there was no refusal
	ticking bool
	crowded atomic.Bool
}

// newDoor makes the door before intake, for a daemon on so many cores. More decisions at once than one core
// makes in some milliseconds only wait for each other there.
func newDoor(intake *rpc.Gate, cores int) *door {
	return &door{intake: intake, credit: maxCredit, room: min(maxDeciding, int64(cores+1)*decidingOfCore)}
}

// fits reports whether n decisions more have room. The caller holds mu.
func (d *door) fits(n int64) bool {
	used, waiting := d.intake.Used()
	return waiting == 0 && used+d.coming+n <= d.room
}

// left lets connections in for which there is room by now.
func (d *door) left() {
	if d == nil || !d.crowded.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.credit = min(d.credit+1, maxCredit)
	d.admit()
}

// tick has something refused though nothing is decided.
func (d *door) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticking, d.credit = false, max(d.credit, 1)
	d.admit()
}

// admit lets connections in that have room. The caller holds mu.
func (d *door) admit() {
	for first := d.waiting.Front(); first != nil; first = d.waiting.Front() {
		c := first.Value.(*doorConn)
		if !d.fits(c.brings) {
			break
		}
		d.waiting.Remove(first)
		c.enter()
		close(c.ready)
	}
	idle := d.waiting.Len() == 0 && d.fits(d.room/2)
	for first := d.late.Front(); first != nil && (idle || d.credit > 0); first = d.late.Front() {
		c := d.late.Remove(first).(*doorConn)
		d.credit -= c.brings * answersOfRefusal
		close(c.ready)
	}
	if d.late.Len() > 0 && !d.ticking {
		d.ticking = true
		time.AfterFunc(refuseEvery, d.tick)
	}
	d.crowded.Store(d.waiting.Len()+d.late.Len() > 0)
}

// listener puts the door before the connections of l, which bring so many decisions at once.
func (d *door) listener(l net.Listener, brings int64) net.Listener {
	return &doorListener{l, d, brings}
}

type doorListener struct {
	net.Listener
	door   *door
	brings int64
}

// Accept waits for the next connection.
func (l *doorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return c, err
	}
	return &doorConn{Conn: c, door: l.door, brings: l.brings, line: c.RemoteAddr().(*line)}, nil
}

// doorConn is a connection before the door. One goroutine reads at a time.
type doorConn struct {
	net.Conn
	line   *line
	door   *door
	brings int64
	// since is when the bytes that were read last had come; more tells that there may be others as old.
	since time.Time
	more  bool

	// Guarded by the door's mu.
	ready  chan struct{} // closed when the connection may go on
	coming bool          // it was let in, and its calls may not have begun yet
}

// enter lets the connection in. The caller holds the door's mu.
func (c *doorConn) enter() {
	c.coming = true
	c.door.coming += c.brings
}

// Read waits for bytes, and then for the door.
func (c *doorConn) Read(p []byte) (int, error) {
	c.begun()
	if c.door.crowded.Load() {
		p = p[:min(len(p), doorBytes)]
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	if !c.more {
		c.since = time.Now()
	}
	c.more = n == len(p)
	c.line.late.Store(c.wait())
	return n, err
}

// Close closes the connection.
func (c *doorConn) Close() error {
	c.begun()
	return c.Conn.Close()
}

// begun notes that the calls that were read last have begun.
func (c *doorConn) begun() {
	d := c.door
	if d.crowded.Load() && c.brings > 1 {
		runtime.Gosched() // their goroutines run first
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.coming {
		c.coming = false
		d.coming -= c.brings
		d.admit()
	}
}

// wait waits for the door, and reports whether the calls are to be refused.
func (c *doorConn) wait() (late bool) {
	d := c.door
	d.mu.Lock()
	age := time.Duration(0)
	if c.more {
		age = time.Since(c.since)
	}
	if age < doorWait && d.waiting.Len() == 0 && d.fits(c.brings) {
		c.enter()
		d.mu.Unlock()
		return false
	}
	d.crowded.Store(true)
	c.ready = make(chan struct{})
	at := d.waiting.PushBack(c)
	d.mu.Unlock()
	if age < doorWait {
		patience := time.NewTimer(doorWait - age)
		defer patience.Stop()
		select {
		case <-c.ready:
			return false
		case <-patience.C:
		}
	}
	d.mu.Lock()
	if c.coming {
		d.mu.Unlock()
		return false
	}
	d.waiting.Remove(at)
	d.late.PushBack(c)
	d.admit()
	d.mu.Unlock()
	<-c.ready
	return true
}
