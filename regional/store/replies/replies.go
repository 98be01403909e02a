// Package replies bounds what a Redis server may send, before go-redis reads it.
package replies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Bounds on the replies of a server. go-redis trusts the lengths in a reply: it allocates that
// much, and panics at lengths below -1. The largest reply that a daemon asks for is CLUSTER SLOTS
// of a cluster in which every slot is a range of its own, about 6 MB.
const (
	maxBulk  = 1 << 20   // bytes of one text
	maxArray = 64 << 10  // parts of one array, set or push, and pairs of a map
	maxDepth = 8         // arrays nested in each other
	maxLine  = 64 << 10  // bytes of one line: an error, a number, a length
	maxParts = 512 << 10 // parts of one reply, at all depths
	// MaxBytes bounds one reply.
	MaxBytes = 16 << 20
)

// ErrReply is wrapped by the error of a call whose server sent a malformed reply, or one larger
// than any reply that a daemon asks for. The connection is useless after it.
var ErrReply = errors.New("store: the Redis sent a malformed reply")

// Bound makes options dial connections that check the incoming bytes against the bounds above
// before go-redis reads them. dial is the underlying dialler; nil means that of go-redis.
func Bound(o *redis.Options, dial func(context.Context, string, string) (net.Conn, error)) {
	if dial == nil {
		own := *o
		dial = redis.NewDialer(&own)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return boundConn(conn), nil
	}
}

// boundConn returns conn with checked replies. go-redis looks for unread bytes before it reuses
// a connection. The result allows that if conn does.
func boundConn(conn net.Conn) net.Conn {
	out := &boundedConn{Conn: conn}
	if raw, ok := conn.(syscall.Conn); ok {
		return &rawBoundedConn{out, raw}
	}
	return out
}

// boundedConn is a connection whose incoming bytes are checked. Only one goroutine may read at a
// time.
type boundedConn struct {
	net.Conn
	replies scanner
}

// rawBoundedConn is a boundedConn that can be looked at for unread bytes.
type rawBoundedConn struct {
	*boundedConn
	syscall.Conn
}

// Read reads from the connection. It fails if the bytes are out of bounds.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bad := c.replies.scan(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// scanner follows a stream of replies by their headers, and skips their contents.
type scanner struct {
	line  []byte // the beginning of an unfinished line
	long  int    // the bytes of that line so far
	skip  int    // the bytes still to come of a text, with its end
	depth int
	left  [maxDepth]int // the parts still to come of each open array
	parts int           // of the current reply so far
	bytes int           // of the current reply so far
	bad   error         // the first error
}

// scan checks the next bytes. Once it has returned an error, it always returns that error.
func (s *scanner) scan(b []byte) error {
	for len(b) > 0 && s.bad == nil {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			s.skip, s.bytes, b = s.skip-n, s.bytes+n, b[n:]
			if s.skip == 0 {
				s.ended()
			}
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			s.keep(b)
			break
		}
		s.bytes += end
		line := b[:end]
		if s.long > 0 {
			s.keep(line)
			line = s.line
		}
		b = b[end:]
		s.header(line, max(s.long, end))
		s.line, s.long = s.line[:0], 0
	}
	if s.bad == nil && s.bytes+s.long > MaxBytes {
		s.refuse("a reply of more than %d bytes", MaxBytes)
	}
	return s.bad
}

// longestHeader is the length of the longest line that states a length.
const longestHeader = 24

// keep adds a part of a line. It stores no more of the line than a header has.
func (s *scanner) keep(part []byte) {
	if s.long += len(part); s.long > maxLine {
		s.refuse("a line of more than %d bytes", maxLine)
	}
	s.line = append(s.line, part[:min(len(part), max(0, longestHeader-len(s.line)))]...)
}

// header handles a line that has ended. line may be only its first bytes; long is its whole length.
func (s *scanner) header(line []byte, long int) {
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		s.ended()
	case '$', '=', '!':
		n, ok := lengthIn(line, long)
		switch {
		case !ok || n > maxBulk:
			s.refuse("a text of the length %.24q; at most %d bytes", line[1:], maxBulk)
		case n < 0:
			s.ended()
		default:
			s.skip = n + len("\r\n")
		}
	case '*', '~', '>', '%':
		n, ok := lengthIn(line, long)
		switch {
		case !ok || n > maxArray:
			s.refuse("an array of the length %.24q; at most %d parts", line[1:], maxArray)
		case n <= 0:
			s.ended()
		case s.depth == maxDepth:
			s.refuse("arrays more than %d deep", maxDepth)
		default:
			if line[0] == '%' {
				n *= 2
			}
			s.left[s.depth] = n
			s.depth++
		}
	default:
		s.refuse("a reply that begins with %q", line[0])
	}
}

// ended records that a part has ended, and with it each array of which it was the last part.
func (s *scanner) ended() {
	if s.parts++; s.parts > maxParts {
		s.refuse("a reply of more than %d parts", maxParts)
	}
	for s.depth > 0 {
		if s.left[s.depth-1]--; s.left[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
	s.parts, s.bytes = 0, 0
}

func (s *scanner) refuse(format string, args ...any) {
	if s.bad == nil {
		s.bad = fmt.Errorf("%w: "+format, append([]any{ErrReply}, args...)...)
	}
}

// lengthIn reads the number of a header: digits, or -1 for no value.
func lengthIn(line []byte, long int) (n int, ok bool) {
	if long > longestHeader || long < len("$0\r\n") || string(line[long-2:]) != "\r\n" {
		return 0, false
	}
	digits := line[1 : long-2]
	if string(digits) == "-1" {
		return -1, true
	}
	if len(digits) > 9 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
