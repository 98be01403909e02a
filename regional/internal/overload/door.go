package overload

import (
	"container/list"
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/cpu"

	"aliquot/internal/rpc"
	"aliquot/regional/internal/storeguard"
)

// Bounds on the requests that are decided at once. Reports, /readyz, metrics, and health over gRPC are
// outside of them, so that a daemon with too many calls keeps its lease.
const (
	// maxDeciding caps the requests that are being decided, those of large calls aside, to as many as four of the
	// store's calls hold. A request that waits longer at the store loses its patience and is decided without it.
	maxDeciding = 4 * storeguard.GroupsPerCall
	// A call of more than maxSmall requests is large. maxDecidingLarge caps the requests of large calls that are being
	// decided. They take turns of their own, so that one of the store's calls is always there for other requests, and
	// those do not wait behind large calls.
	maxSmall         = storeguard.GroupsPerCall / 4
	maxDecidingLarge = (storeguard.BatchCalls - 1) * storeguard.GroupsPerCall
	// maxWaiting caps the calls that wait for their turn. decideWait is how long a call waits for its turn, and how
	// long bytes wait to be read. The calls among older bytes are refused. If the store stops, those who have turns wait
	// for it for storeguard.CallerPatience, and those who wait for turns must outlast that. A large call waits so for
	// its first part. With 1,000 requests it has 16, so it has its answer in about 1.6 s where it would wait as long for
	// each.
	maxWaiting = 4096
	decideWait = 100 * time.Millisecond
	// maxWeight caps the memory of the messages that are being read and decided, in bytes.
	// weighWait is how long a message waits for its room.
	maxWeight = 64 << 20
	weighWait = 2 * time.Second
)

// NewMessages returns the gate that bounds the memory of the messages under way, in bytes.
func NewMessages() *rpc.Gate { return rpc.NewGate(maxWeight, maxWaiting, weighWait) }

// ErrCrowded is the error of a call that got no turn.
var ErrCrowded = crowded()

func crowded() *connect.Error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("this daemon is asked more than it can decide; retry after 1 s"))
	err.Meta().Set("Retry-After", "1")
	return err
}

// Bounds on what is read while the daemon is asked more than it can decide.
const (
	// doorBytes is how much of a connection is read at once while others wait. Over gRPC that is
	// some dozens of calls.
	doorBytes = 4 << 10
	// BringsHTTP and BringsGRPC are the numbers of decisions that are expected of a connection
	// while its bytes are read.
	BringsHTTP, BringsGRPC = 1, 16
	// decidingOfCore is how many decisions a core may have under way. A daemon with one core may
	// have twice as many, and maxDeciding is the bound for all cores together. Those of one core
	// fill three calls of the store: with two, the daemon waited for the store a tenth of the time.
	decidingOfCore = 96
	// One spareOfHTTP-th is the part of that room that calls over HTTP/1.1 leave free. Each costs so much
	// more than one over gRPC that two calls of the store keep the daemon busy, and a third one
	// would only make their answers later.
	spareOfHTTP = 3
	// answersOfRefusal is the number of decisions for each refusal, so that refusals take a few per
	// cent of the processor's time. refuseEvery is the time after which one call is refused in any
	// case.
	answersOfRefusal = 8
	refuseEvery      = 10 * time.Millisecond
	// maxCredit bounds the decisions that count for later refusals.
	maxCredit = 8 * answersOfRefusal
)

// Door gives requests their turns to be decided, and lets connections read while there is room for what they bring. The
// others wait in the order in which they came. A call that was not read costs nothing, while one that was read costs its
// decoding and a place among the goroutines of the scheduler. Bytes that waited longer than decideWait are still read, a
// few at a time, and their calls are refused. A nil door bounds nothing. Safe for concurrent use.
type Door struct {
	intake    *rpc.Gate
	large     *rpc.Gate // of the requests of large calls
	refused   prometheus.Counter
	readLimit int64 // decisions under way beyond which nothing more is read
	crowded   atomic.Bool

	_      cpu.CacheLinePad // each read changes what follows, and reads what stands above
	coming atomic.Int64     // decisions that are expected of connections that were let in

	mu      sync.Mutex
	waiting list.List // of *doorConn
	late    list.List // of *doorConn: those that wait for their refusal
	credit  int64     // decisions for which there was no refusal
	ticking bool
}

// NewDoor returns the door of a daemon on so many cores. It counts the calls that got no turn in
// refused.
func NewDoor(cores int, refused prometheus.Counter) *Door {
	return newDoor(rpc.NewGate(maxDeciding, maxWaiting, decideWait), cores, refused)
}

// newDoor returns the door before intake. If a core had more decisions under way than it makes in
// some milliseconds, they would only wait for each other.
func newDoor(intake *rpc.Gate, cores int, refused prometheus.Counter) *Door {
	return &Door{intake: intake, large: rpc.NewGate(maxDecidingLarge, maxWaiting, decideWait), refused: refused, credit: maxCredit, readLimit: min(maxDeciding, int64(cores+1)*decidingOfCore)}
}

// Enter takes a turn to decide one request, or returns ErrCrowded, or the error of ctx. It returns how many turns the
// caller must give back by Leave.
func (d *Door) Enter(ctx context.Context) (taken int, err error) {
	taken, _, err = d.EnterCall(ctx, 1)
	return taken, err
}

// EnterCall is Enter for a call of n requests, which must end by LeaveCall. A large call takes one turn, and those of its
// first part: of as many requests as one call of the store takes.
func (d *Door) EnterCall(ctx context.Context, n int) (taken, part int, err error) {
	switch {
	case d == nil:
		return 0, 0, nil
	case LateCall(ctx):
	case n > maxSmall:
		part = min(n, storeguard.GroupsPerCall)
		if d.large.TryEnter(ctx, int64(part)) == nil {
			d.intake.Retake(1)
			return 1, part, nil
		}
	default:
		if n = max(n, 1); d.intake.TryEnter(ctx, int64(n)) == nil {
			return n, 0, nil
		}
	}
	d.refused.Inc()
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	return 0, 0, ErrCrowded
}

// LeaveCall gives back what a call has left of its turns, and of those of its part.
func (d *Door) LeaveCall(taken, part int) {
	if part > 0 {
		d.LeavePart(part)
	}
	d.Leave(taken)
}

// TakePart waits for n turns of large calls, at most storeguard.GroupsPerCall, for another part of a call that was let in.
// It waits behind the other calls that wait for some. Its error is that of ctx.
func (d *Door) TakePart(ctx context.Context, n int) error { return d.large.Await(ctx, int64(n)) }

// LeavePart gives n turns of large calls back.
func (d *Door) LeavePart(n int) { d.large.Leave(int64(n)) }

// Deciding returns how many turns are taken, and how many of those of large calls.
func (d *Door) Deciding() (requests, large int64) {
	requests, _ = d.intake.Used()
	large, _ = d.large.Used()
	return requests, large
}

// Leave gives n turns back: of requests that are decided, or of a check that goes on waiting.
func (d *Door) Leave(n int) {
	if d != nil && n > 0 {
		d.intake.Leave(int64(n))
		d.left()
	}
}

// Retake takes n turns again at once that a check has left.
func (d *Door) Retake(n int) { d.intake.Retake(int64(n)) }

// fits reports whether there is room for n more decisions. The caller holds mu.
func (d *Door) fits(n int64) bool {
	used, waiting := d.intake.Used()
	return waiting == 0 && used+d.coming.Load()+n <= d.readLimit
}

// left counts a decision that has ended, and lets connections in for which there is room now.
func (d *Door) left() {
	if !d.crowded.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.credit = min(d.credit+1, maxCredit)
	d.admit()
}

// tick allows a refusal although nothing was decided.
func (d *Door) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticking, d.credit = false, max(d.credit, 1)
	d.admit()
}

// admit lets connections in for which there is room. The caller holds mu.
func (d *Door) admit() {
	for first := d.waiting.Front(); first != nil; first = d.waiting.Front() {
		c := first.Value.(*doorConn)
		if !d.fits(c.needs()) {
			break
		}
		d.waiting.Remove(first)
		c.enter()
		close(c.ready)
	}
	idle := d.waiting.Len() == 0 && d.fits(d.readLimit/2)
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

// Listener returns l with the door before its connections. brings is the number of decisions
// expected of each at once. l must be a listener of Throttle.
func (d *Door) Listener(l net.Listener, brings int64) net.Listener {
	return &doorListener{l, d, brings}
}

// doorListener is a listener whose connections have to pass the door.
type doorListener struct {
	net.Listener
	door   *Door
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

// doorConn is a connection before the door. Only one goroutine may read at a time.
type doorConn struct {
	net.Conn
	line   *line
	door   *Door
	brings int64
	// more reports that there may be further bytes as old as the latest ones, which had come at since.
	since time.Time
	more  bool

	coming atomic.Bool // its calls may not have begun yet, and count as coming
	closed atomic.Bool // no call of it begins any more

	// Guarded by the door's mu.
	ready    chan struct{} // closed when the connection may go on
	admitted bool          // it waited after its latest read, and was let in
}

// needs returns the room that must be free before the connection is read.
func (c *doorConn) needs() int64 {
	if c.brings == BringsHTTP {
		return c.brings + c.door.readLimit/spareOfHTTP
	}
	return c.brings
}

// enter lets the connection in. The caller holds the door's mu.
func (c *doorConn) enter() {
	c.admitted = true
	if !c.closed.Load() { // nothing would end what it brings
		c.door.coming.Add(c.brings)
		c.coming.Store(true)
	}
}

// tryEnter lets the connection in if there is room, without the door's mu.
func (c *doorConn) tryEnter() bool {
	d := c.door
	coming := d.coming.Add(c.brings)
	if used, waiting := d.intake.Used(); waiting > 0 || used+coming-c.brings+c.needs() > d.readLimit {
		d.coming.Add(-c.brings)
		return false
	}
	c.coming.Store(true)
	if c.closed.Load() { // since it was read
		c.begun()
	}
	return true
}

// Read waits for bytes, and then for the door.
func (c *doorConn) Read(p []byte) (int, error) {
	c.begun()
	crowded := c.door.crowded.Load()
	if crowded {
		p = p[:min(len(p), doorBytes)]
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	more := n == len(p)
	if more && (!c.more || !crowded) { // a large message that arrives slowly is late only where others wait, too
		c.since = time.Now()
	}
	c.more = more
	if late := c.wait(); late != c.line.late.Load() {
		c.line.late.Store(late)
	}
	return n, err
}

// Close closes the connection.
func (c *doorConn) Close() error {
	c.door.mu.Lock()
	c.closed.Store(true)
	c.door.mu.Unlock()
	c.begun()
	return c.Conn.Close()
}

// begun records that the calls that were read last have begun.
func (c *doorConn) begun() {
	d := c.door
	if d.crowded.Load() && c.brings > 1 {
		runtime.Gosched() // the calls' goroutines run first
	}
	if !c.coming.Swap(false) {
		return
	}
	d.coming.Add(-c.brings)
	if d.crowded.Load() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.admit()
	}
}

// wait waits for the door, and reports whether the calls are to be refused.
func (c *doorConn) wait() (late bool) {
	d := c.door
	if !c.more && !d.crowded.Load() && c.tryEnter() {
		return false
	}
	d.mu.Lock()
	age := time.Duration(0)
	if c.more {
		age = time.Since(c.since)
	}
	if age < decideWait && d.waiting.Len() == 0 && d.fits(c.needs()) {
		c.enter()
		d.mu.Unlock()
		return false
	}
	d.crowded.Store(true)
	c.ready, c.admitted = make(chan struct{}), false
	at := d.waiting.PushBack(c)
	if age < decideWait {
		d.admit() // what has ended since may not have seen that the door is crowded
	}
	d.mu.Unlock()
	if age < decideWait {
		patience := time.NewTimer(decideWait - age)
		defer patience.Stop()
		select {
		case <-c.ready:
			return false
		case <-patience.C:
		}
	}
	d.mu.Lock()
	if c.admitted {
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
