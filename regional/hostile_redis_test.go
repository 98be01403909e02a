package regional

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"aliquot/regional/internal/modes"
)

// hostileReply makes of a Redis's true reply to a script what is sent in its place; ends tells to close
// the connection after it.
type hostileReply func(reply []byte) (sent []byte, ends bool)

func always(text string) hostileReply {
	return func([]byte) ([]byte, bool) { return []byte(text), false }
}

// numbers puts one number in the place of all that a script's reply packs.
func numbers(v float64) hostileReply {
	return func(reply []byte) ([]byte, bool) {
		out := bytes.Clone(reply)
		if _, packed, ok := bytes.Cut(out, []byte("\r\n$")); ok {
			if _, packed, ok = bytes.Cut(packed, []byte("\r\n")); ok {
				for ; len(packed) >= 10; packed = packed[8:] {
					binary.LittleEndian.PutUint64(packed, math.Float64bits(v))
				}
			}
		}
		return out, false
	}
}

// clock puts another time in the place of the store's.
func clock(at int64) hostileReply {
	return func(reply []byte) ([]byte, bool) {
		before, rest, ok := bytes.Cut(reply, []byte("\r\n:"))
		if !ok {
			return reply, false
		}
		_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		return fmt.Appendf(nil, "%s\r\n:%d\r\n%s", before, at, rest), false
	}
}

// hostileReplies are what a Redis can send in the place of a script's reply, and how metrics call what
// becomes of it; without a reason the reply can be read, and nothing but its numbers is wrong.
var hostileReplies = []struct {
	name   string
	reply  hostileReply
	reason string
}{
	{"random bytes", func([]byte) ([]byte, bool) {
		out := make([]byte, 512)
		for i := range out {
			out[i] = byte(rand.Uint32())
		}
		out[0] = 'R'
		return out, false
	}, "reply"},
	{"nothing (nil)", always("$-1\r\n"), "other"},
	{"a number", always(":9223372036854775807\r\n"), "other"},
	{"a status", always("+OK\r\n"), "other"},
	{"an empty array", always("*0\r\n"), "other"},
	{"an array of 2^31-1", always("*2147483647\r\n:1\r\n"), "reply"},
	{"an array of -7", always("*-7\r\n"), "reply"},
	{"a map of 2^31-1", always("%2147483647\r\n:1\r\n"), "reply"},
	{"a text of 512 MiB", always("$536870912\r\nx"), "reply"},
	{"a text of 2^63-1", always("$9223372036854775807\r\nx"), "reply"},
	{"a text of -5", always("$-5\r\n\r\n"), "reply"},
	{"a text without a length", always("$?\r\n;4\r\nabcd\r\n;0\r\n"), "reply"},
	{"arrays 200,000 deep", always(strings.Repeat("*1\r\n", 200_000)), "reply"},
	{"a line without an end", always("+" + strings.Repeat("A", 1<<20)), "reply"},
	{"an error of 60 KB", always("-ERR \x1b[31mevil\x1b[0m " + strings.Repeat("A", 60_000) + "\r\n"), "other"},
	{"MOVED without a cluster", always("-MOVED 1 127.0.0.1:1\r\n"), "scheme"},
	{"NOSCRIPT for ever", always("-NOSCRIPT No matching script\r\n"), "other"},
	{"the end of the connection", func([]byte) ([]byte, bool) { return nil, true }, "connection"},
	{"half of the reply", func(r []byte) ([]byte, bool) { return r[:len(r)/2], true }, "connection"},
	{"no reply", func([]byte) ([]byte, bool) { return nil, false }, "timeout"},
	{"numbers that are none", numbers(math.NaN()), ""},
	{"infinite numbers", numbers(math.Inf(1)), ""},
	{"numbers of -10^300", numbers(-1e300), ""},
	{"a clock at the end of time", clock(math.MaxInt64), ""},
	{"a clock before all time", clock(math.MinInt64), ""},
	{"flipped bits", func(r []byte) ([]byte, bool) {
		out := bytes.Clone(r)
		head := bytes.IndexByte(out, '\n')
		out[head+rand.IntN(len(out)-head)] ^= 1 << rand.IntN(8)
		return out, false
	}, ""},
}

// TestRedisThatAnswersNonsense: whatever a Redis sends in the place of a script's reply, the daemon goes
// on, every check is answered by its rule's own choice, metrics say why, and a Redis that is itself again
// decides again.
func TestRedisThatAnswersNonsense(t *testing.T) {
	for _, c := range hostileReplies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake := startHostile(t, startRedis(t))
			config := testConfig(newLeader(t, failRules).address())
			config.Redis = "redis://" + fake.listener.Addr().String()
			d, _ := startLive(t, config)
			eventually(t, "the store decides", func() bool { return on(t, d, "local").Mode == modes.Store })
			fake.mode.Store(&c.reply)
			if c.reason == "" {
				for range 200 {
					on(t, d, "local") // which fails the test unless it is answered
				}
			} else {
				fault := storeFault{reason: c.reason}
				fault.isFelt(t, d)
			}
			fake.mode.Store(nil)
			for _, which := range []string{"local", "open", "closed"} {
				eventually(t, which+" is decided by the store again", func() bool { return byTheLimit(on(t, d, which).Mode) })
			}
		})
	}
}

// hostile stands before a Redis and passes everything on, but replies to scripts as its mode says.
type hostile struct {
	listener net.Listener
	redis    *redisServer
	mode     atomic.Pointer[hostileReply]
	served   sync.WaitGroup
}

func startHostile(t testing.TB, redis *redisServer) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{listener: l, redis: redis}
	h.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.served.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return h
}

func (h *hostile) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.redis.port))
	if err != nil {
		return
	}
	defer server.Close()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := readRESP(commands)
		if err != nil {
			return
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		reply, err := readRESP(replies)
		if err != nil {
			return
		}
		ends := false
		if mode := h.mode.Load(); mode != nil && bytes.Contains(bytes.ToLower(command[:min(len(command), 24)]), []byte("\r\neval")) {
			reply, ends = (*mode)(reply)
		}
		if _, err := client.Write(reply); err != nil || ends {
			return
		}
	}
}

// readRESP reads one command or reply, which is well-formed.
func readRESP(r *bufio.Reader) ([]byte, error) {
	out, err := r.ReadBytes('\n')
	if err != nil || len(out) < 3 {
		return out, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(out[1:])))
	switch out[0] {
	case '$', '=', '!':
		if n < 0 {
			return out, nil
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(r, text)
		return append(out, text...), err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return out, nil
	}
	for range n {
		part, err := readRESP(r)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}
