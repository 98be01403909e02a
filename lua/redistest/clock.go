package redistest

import (
	"bufio"
	"crypto/sha1" // #nosec: what EVALSHA names scripts by, not for secrecy
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clock stands before a server and decides what time its scripts read: a machine's clock
// cannot be set for one process. Only the scripts' clock is another one, so keys live as
// long as ever. Safe for concurrent use.
type Clock struct {
	// Addr is where clients connect to instead of the server.
	Addr  string
	ahead atomic.Int64 // seconds

	mu sync.Mutex
	// worded are scripts that were worded for a clock: that takes longer than a store is
	// waited for on a busy machine.
	worded map[clocked]script
}

// clocked names a script, by its hash, as a clock that is so much ahead has it.
type clocked struct {
	sha   string
	ahead int64
}

// script is a script worded for a clock.
type script struct{ text, sha string }

// StartClock runs one before a server's address until the test ends. It shows the server's
// own time at first.
func StartClock(t testing.TB, server string) *Clock {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &Clock{Addr: l.Addr().String(), worded: map[clocked]script{}}
	var conns sync.WaitGroup
	ended := make(chan struct{})
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { c.serve(client, server, ended) })
		}
	})
	t.Cleanup(func() {
		close(ended)
		l.Close()
		conns.Wait()
	})
	return c
}

// Set sets the clock to so much ahead of the server's, in whole seconds; less than zero is
// behind it.
func (c *Clock) Set(ahead time.Duration) { c.ahead.Store(int64(ahead / time.Second)) }

// serve carries one connection until either side or the test ends it.
func (c *Clock) serve(client net.Conn, server string, ended <-chan struct{}) {
	defer client.Close()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	var copies sync.WaitGroup
	over := make(chan struct{}, 2)
	copies.Go(func() { io.Copy(client, to); over <- struct{}{} })
	copies.Go(func() { c.requests(client, to); over <- struct{}{} })
	select {
	case <-over:
	case <-ended:
	}
	client.Close()
	to.Close()
	copies.Wait()
}

// requests passes a client's commands on, with another clock in the texts of scripts.
func (c *Clock) requests(client io.Reader, to io.Writer) {
	in, out := bufio.NewReader(client), bufio.NewWriter(to)
	for {
		words, err := command(in)
		if err != nil {
			return
		}
		if len(words) > 1 {
			words[1] = c.word(words[0], words[1])
		}
		fmt.Fprintf(out, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(out, "$%d\r\n%s\r\n", len(w), w)
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// word is the first argument of a command. A script called by its name is called by that which
// it has for this clock; one that has none is not found, and comes again with its text.
func (c *Clock) word(command, first string) string {
	ahead := c.ahead.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.EqualFold(command, "evalsha"):
		if known, found := c.worded[clocked{first, ahead}]; found {
			return known.sha
		}
	case strings.EqualFold(command, "eval"):
		name := clocked{hash(first), ahead}
		known, found := c.worded[name]
		if !found {
			known.text = reading(first, ahead)
			known.sha = hash(known.text)
			c.worded[name] = known
		}
		return known.text
	}
	return first
}

// hash is what Redis knows a script by.
func hash(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

var (
	readsClock = regexp.MustCompile(`(redis\.)?call\('TIME'\)`)
	setsExpiry = regexp.MustCompile(`'PXAT', (\w+(?:\(\w*\))?)`)
)

// reading is a script's text that reads a clock so many seconds ahead, and names instants of
// it to the server.
func reading(text string, ahead int64) string {
	text = setsExpiry.ReplaceAllString(text, fmt.Sprintf("'PXAT', string.format('%%d', $1 - %d)", ahead*1000))
	return readsClock.ReplaceAllString(text, fmt.Sprintf(
		"(function() local t = redis.call('TIME') t[1] = t[1] + %d return t end)()", ahead))
}

// command reads one command of a client.
func command(in *bufio.Reader) ([]string, error) {
	n, err := length(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := length(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:size])
	}
	return words, nil
}

// length reads a line like "*3".
func length(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	digits, found := strings.CutPrefix(strings.TrimSpace(line), string(kind))
	n, err := strconv.Atoi(digits)
	if err != nil || !found || n < 0 {
		return 0, fmt.Errorf("redistest: %q where a length should be", line)
	}
	return n, nil
}
