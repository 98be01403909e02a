package load

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"aliquot/internal/bench/latency"
)

// redialAfter keeps a server that refuses connections from being asked in a busy loop.
const redialAfter = 20 * time.Millisecond

// run is what all connections of a run share.
type run struct {
	config *Config
	mold   *mold
	drawn  []uint32
	began  time.Time
	// Answers between from and until count; nothing is sent after until.
	from, until time.Duration
	// tickets are the calls that an open loop has handed out, every apart.
	tickets atomic.Int64
	every   time.Duration
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.began) }

// open: calls are sent at a rate, whether or not answers come.
func (r *run) open() bool { return r.every > 0 }

// due is when the next call of an open loop is to be sent.
func (r *run) due() time.Duration { return time.Duration(r.tickets.Add(1)-1) * r.every }

// lane is one connection's part of a run. One goroutine records in it.
type lane struct {
	*run
	tally
	took, underWay, late latency.Histogram
	errors               map[string]int64
	example              map[string]string
}

func (r *run) newLane() *lane {
	return &lane{run: r, errors: map[string]int64{}, example: map[string]string{}}
}

// timed records how long a call took, which was due at a time and sent at another one, the
// same in a closed loop, and whose answer came just now. It reports whether the answer counts.
func (l *lane) timed(due, sent time.Duration) bool {
	now := l.now()
	if now < l.from || now >= l.until {
		return false
	}
	l.took.Add(now - due)
	l.underWay.Add(now - sent)
	return true
}

// answered records a call and the decisions in its answer.
func (l *lane) answered(due, sent time.Duration, message []byte) {
	if !l.timed(due, sent) {
		return
	}
	if err := l.scan(l.config, message); err != nil {
		l.failed(1, err)
	}
}

// failed records calls without a usable answer. Their checks are neither allowed nor
// denied.
func (l *lane) failed(calls int, err error) {
	if l.now() < l.from {
		return
	}
	kind := errorKind(err)
	l.errors[kind] += int64(calls * l.config.checksPerCall())
	l.example[kind] = err.Error()
}

// errorKind is a short name of an error's sort.
func errorKind(err error) string {
	var answer *answerError
	var network net.Error
	switch {
	case errors.As(err, &answer):
		return answer.status
	case errors.Is(err, errAnswer), errors.Is(err, errMissing):
		return "malformed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "connection lost"
	}
	return "other"
}

// answerError is an answer that says that there is none.
type answerError struct{ status, message string }

func (e *answerError) Error() string { return e.status + ": " + e.message }

// drive keeps a connection busy until the run is over, with a new one whenever it
// breaks.
func (l *lane) drive(ctx context.Context, serve func(context.Context, net.Conn) error) {
	for ctx.Err() == nil && l.now() < l.until {
		c, err := dial(ctx, l.config)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			// Nothing is waited for longer than this, whatever the server does.
			_ = c.SetDeadline(l.began.Add(l.until + l.config.Timeout)) // a TCP connection takes it
			err = serve(ctx, c)
			stop()
			c.Close()
		} else {
			l.failed(1, err)
		}
		if err != nil && l.now() < l.until {
			time.Sleep(redialAfter)
		}
	}
}
