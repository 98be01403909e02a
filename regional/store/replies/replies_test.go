package replies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"aliquot/lua/redistest"

	"github.com/redis/go-redis/v9"
)

// slots is CLUSTER SLOTS of a cluster whose every slot is a range of its own, with three nodes each.
func slots() string {
	node := "*4\r\n$12\r\n10.0.0.1:637\r\n:6379\r\n$40\r\n" + strings.Repeat("a", 40) + "\r\n*2\r\n$8\r\nhostname\r\n$40\r\n" + strings.Repeat("h", 40) + "\r\n"
	return "*16384\r\n" + strings.Repeat("*5\r\n:1\r\n:1\r\n"+strings.Repeat(node, 3), 16384)
}

// TestRepliesWithinBounds: what a Redis sends passes, however it is cut, and what comes after it is looked
// at as the next reply.
func TestRepliesWithinBounds(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901234567890\r\n",
		"$0\r\n\r\n", "$5\r\n*9\r\n\n\r\n", "=7\r\ntxt:one\r\n", "!5\r\nERR x\r\n", "*0\r\n", "%1\r\n+a\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n+a\r\n+b\r\n",
		"*3\r\n*2\r\n:1\r\n*0\r\n%1\r\n$1\r\na\r\n*1\r\n:1\r\n$-1\r\n",
		strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
		"-" + strings.Repeat("e", 60_000) + "\r\n",
		fmt.Sprintf("$%d\r\n%s\r\n", maxBulk, strings.Repeat("x", maxBulk)),
		slots(),
	} {
		stream := reply + reply + "+next\r\n"
		for name, cut := range map[string]func(io.Reader) io.Reader{"whole": asItComes, "halves": iotest.HalfReader, "bytes": iotest.OneByteReader} {
			if name == "bytes" && len(stream) > 1<<20 {
				continue
			}
			var s scanner
			part := make([]byte, 4096)
			for r := cut(strings.NewReader(stream)); ; {
				n, err := r.Read(part)
				if bad := s.scan(part[:n]); bad != nil {
					t.Fatalf("%.40q, %s: %v", reply, name, bad)
				}
				if err != nil {
					break
				}
			}
			if s.depth != 0 || s.skip != 0 || s.parts != 0 || s.bytes != 0 {
				t.Errorf("%.40q, %s: the scanner is in the middle of a reply: %+v", reply, name, s)
			}
		}
	}
}

func asItComes(r io.Reader) io.Reader { return r }

// TestRepliesOutOfBounds: each is refused, by what is wrong with it, before it is read.
func TestRepliesOutOfBounds(t *testing.T) {
	for reply, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n":       `begins with 'H'`,
		"$-5\r\n\r\n":                        "a text of the length",
		"$1048577\r\n":                       "a text of the length",
		"$9223372036854775807\r\n":           "a text of the length",
		"$99999999999999999999999999999\r\n": "a text of the length",
		"$\r\n":                              "a text of the length",
		"$+5\r\n":                            "a text of the length",
		"$5\n":                               "a text of the length",
		"$?\r\n":                             "a text of the length",
		"*65537\r\n":                         "an array of the length",
		"*2147483647\r\n":                    "an array of the length",
		"%2147483647\r\n":                    "an array of the length",
		">-2\r\n":                            "an array of the length",
		"|1\r\n+a\r\n+b\r\n":                 `begins with '|'`,
		strings.Repeat("*1\r\n", 9):          "arrays more than 8 deep",
		"+" + strings.Repeat("A", 70_000):    "a line of more than",
		"*16\r\n" + strings.Repeat("*65536\r\n"+strings.Repeat("_\r\n", 65536), 9):                   "more than 524288 parts",
		"*64\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", maxBulk, make([]byte, maxBulk)), 17): "a reply of more than",
	} {
		var s scanner
		err := s.scan([]byte(reply))
		if !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", reply, err, want)
		}
		if again := s.scan([]byte("+OK\r\n")); !errors.Is(again, ErrReply) {
			t.Errorf("%.40q: afterwards %v", reply, again)
		}
	}
}

// TestBoundedConnectionsAreLookedAt: go-redis looks whether the server has closed a connection before it
// uses it again, which it does only where it finds a socket.
func TestBoundedConnectionsAreLookedAt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := boundConn(conn).(interface{ NetConn() net.Conn }); ok {
		t.Error("a bounded connection gives away the one beneath it")
	}
	if _, ok := boundConn(conn).(*rawBoundedConn); !ok {
		t.Error("a bounded connection of TCP is no socket")
	}
}

// FuzzReplies: whatever comes, and however it is cut, the scanner says the same of it.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{"*2\r\n:1\r\n$3\r\nabc\r\n", "$-5\r\n\r\n", "%1\r\n+a\r\n*0\r\n", "*1\r\n*1\r\n+x\r\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		var whole, parts scanner
		want := whole.scan(stream)
		var got error
		for rest := stream; len(rest) > 0 && got == nil; {
			n := min(len(rest), 1+abs(size)%64)
			got, rest = parts.scan(rest[:n]), rest[n:]
		}
		if (want == nil) != (got == nil) {
			t.Errorf("%q: whole %v, in parts %v", stream, want, got)
		}
	})
}

func abs(n int) int { return int(uint(n) & 0x7fffffff) }

// BenchmarkBoundedReplies is what the bounds cost a call: the scanner alone, for the reply to a take of 64
// limits, and a call of a Redis with and without them.
func BenchmarkBoundedReplies(b *testing.B) {
	reply := fmt.Appendf(nil, "*2\r\n:1700000000000000\r\n$2048\r\n%s\r\n", bytes.Repeat([]byte("x"), 2048))
	b.Run("scan", func(b *testing.B) {
		var s scanner
		for b.Loop() {
			if s.scan(reply) != nil {
				b.Fatal("refused")
			}
		}
	})
	server := redistest.Start(b)
	for _, c := range []string{"plain", "bounded"} {
		b.Run(c, func(b *testing.B) {
			o := &redis.Options{Addr: server.Addr}
			if c == "bounded" {
				Bound(o, nil)
			}
			client := redis.NewClient(o)
			defer client.Close()
			ctx := context.Background()
			for b.Loop() {
				if err := client.Eval(ctx, "return {1700000000000000, string.rep('x', 2048)}", nil).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
