package attack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"aliquot/internal/testaddr"
)

// hostileReply turns a Redis's true reply to a script into what is sent in its place. ends says that the connection is
// closed after it.
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

// hostileReplies are what a Redis can send in the place of a script's reply, and the reason that the daemon's metrics
// then name. Without a reason the reply can be read, and only its numbers are wrong.
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

// nonsense lets the Redis answer all of these, one after the other. Every check is answered, by its rule's own choice
// where the reply cannot be read, metrics say why, and a Redis that is itself again decides again.
func (p *peers) nonsense(t *testing.T) string {
	const failedOpen, failedClosed = "fail_open", "fail_closed"
	for _, c := range hostileReplies {
		p.until(t, "the store decides before "+c.name, func() bool { return p.mode(t, "open") == "store" })
		p.redis.mode.Store(&c.reply)
		if c.reason == "" {
			for range 20 {
				_ = p.mode(t, "open") // which fails the test unless it is answered
			}
		} else {
			reason := `reason="` + c.reason + `"`
			before := p.metric("aliquot_store_errors_total", reason)
			p.until(t, "on_redis_failure decides under "+c.name, func() bool { return p.mode(t, "open") == failedOpen })
			p.until(t, "a rule that is closed then denies under "+c.name, func() bool { return p.mode(t, "closed") == failedClosed })
			p.until(t, c.name+" is counted as "+c.reason, func() bool {
				return p.metric("aliquot_store_errors_total", reason) > before || p.mode(t, "open") == ""
			})
		}
		if c.name == "an error of 60 KB" {
			p.quietSettle(t)
		}
		p.redis.mode.Store(nil)
	}
	p.until(t, "the region holds a lease again", func() bool { return p.metric("aliquot_lease_remaining_seconds") > 0 })
	p.until(t, "the store decides again", func() bool { return p.mode(t, "open") == "store" && p.mode(t, "closed") == "store" })
	if n := p.metric("aliquot_panics_total"); n > 0 {
		t.Errorf("%v calls panicked", n)
	}
	return fmt.Sprintf("%d kinds of replies", len(hostileReplies))
}

// mode is what decided a check of a rule.
func (p *peers) mode(t *testing.T, rule string) string {
	t.Helper()
	out, err := http.Post("http://"+p.at+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(`{"attributes":{"api_key":"k","plan":"`+rule+`"}}`))
	if err != nil {
		t.Errorf("a check is not answered: %v", err)
		return ""
	}
	defer out.Body.Close()
	if out.StatusCode == http.StatusServiceUnavailable { // the machine was stopped
		return "refused"
	}
	var a struct {
		Allowed *bool
		Mode    string
	}
	if err := json.NewDecoder(out.Body).Decode(&a); err != nil || out.StatusCode != http.StatusOK || a.Allowed == nil {
		t.Errorf("a check is answered %s, %v", out.Status, err)
	}
	return a.Mode
}

// quietSettle fails the test if the answer to Settle has the text of a Redis's error.
func (p *peers) quietSettle(t *testing.T) {
	answer := call(p.at, "/aliquot.v1.LimiterService/Settle", "application/json", []byte(`{"id":"an id that nobody made"}`))
	if strings.Contains(answer, "evil") || !strings.HasPrefix(answer, "503 ") && !strings.HasPrefix(answer, "404 ") {
		t.Errorf("Settle is answered: %.300s", answer)
	}
}

// hostile forwards a daemon's commands to a Redis, but answers scripts as its mode says.
type hostile struct {
	listener net.Listener
	redis    string // its address
	mode     atomic.Pointer[hostileReply]
}

func startHostile(t *testing.T, redis string) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h := &hostile{listener: l, redis: redis}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return h
}

func (h *hostile) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", h.redis)
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

// redisSays sends a Redis a command and returns the first line of its reply.
func redisSays(command string) func(net.Conn) string {
	return func(conn net.Conn) string {
		_, _ = io.WriteString(conn, command+"\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
}
