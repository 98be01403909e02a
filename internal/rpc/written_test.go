package rpc

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// deadlineCounter counts how often a write deadline is set.
type deadlineCounter struct {
	net.Conn
	n int
}

func (c *deadlineCounter) SetWriteDeadline(t time.Time) error {
	c.n++
	return c.Conn.SetWriteDeadline(t)
}

// boundConn returns a connection that BoundWrites bounds, what it is made of, and its client.
func boundConn(t *testing.T, timeout time.Duration) (c net.Conn, of *deadlineCounter, client net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	of = &deadlineCounter{Conn: server}
	l := oneListener{make(chan net.Conn, 1), make(chan struct{})}
	l.conns <- of
	c, err := BoundWrites(l, timeout).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c, of, client
}

// stuck writes to a client that does not read, and returns how long that took.
func stuck(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := c.Write([]byte("answer")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that nobody reads ended with %v", err)
	}
	return time.Since(began)
}

// TestWritesThatNobodyReadsEnd after the timeout at the earliest and twice the timeout at the latest, whatever the
// connection did before.
func TestWritesThatNobodyReadsEnd(t *testing.T) {
	const timeout = 10 * time.Second
	for name, before := range map[string]func(c, client net.Conn){
		"the first write":           func(net.Conn, net.Conn) {},
		"after an idle hour":        func(c, client net.Conn) { pass(t, c, client); <-time.After(time.Hour) },
		"shortly before a deadline": func(c, client net.Conn) { pass(t, c, client); <-time.After(2*timeout - 1) },
		"shortly after another":     func(c, client net.Conn) { pass(t, c, client); <-time.After(timeout / 2) },
		"after a deadline that was removed": func(c, client net.Conn) {
			pass(t, c, client)
			c.SetWriteDeadline(time.Now().Add(time.Hour))
			pass(t, c, client)
			c.SetWriteDeadline(time.Time{})
		},
		"after one that passed": func(c, client net.Conn) {
			c.SetDeadline(time.Now().Add(time.Second))
			<-time.After(time.Minute)
			c.SetDeadline(time.Time{})
			pass(t, c, client)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, client := boundConn(t, timeout)
				defer client.Close()
				before(c, client)
				if took := stuck(t, c); took < timeout || took > 2*timeout {
					t.Errorf("it took %v, want %v to %v", took, timeout, 2*timeout)
				}
			})
		})
	}
}

// pass writes an answer that the client reads.
func pass(t *testing.T, c, client net.Conn) {
	t.Helper()
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(client, make([]byte, len("answer")))
		read <- err
	}()
	_, err := c.Write([]byte("answer"))
	if err = errors.Join(err, <-read); err != nil {
		t.Errorf("an answer that is read: %v", err)
	}
}

// TestADeadlineTakesThePlaceOfTheBound until it is removed.
func TestADeadlineTakesThePlaceOfTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, client := boundConn(t, 10*time.Second)
		defer client.Close()
		for _, own := range []time.Duration{time.Second, time.Minute} {
			c.SetWriteDeadline(time.Now().Add(own))
			if took := stuck(t, c); took != own {
				t.Errorf("it took %v, want %v", took, own)
			}
		}
	})
}

// TestBoundsCostOneDeadlineInATimeout, not one for each answer.
func TestBoundsCostOneDeadlineInATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, answers = 10 * time.Second, 1000
		c, of, client := boundConn(t, timeout)
		defer client.Close()
		for range answers {
			pass(t, c, client)
			c.SetWriteDeadline(time.Time{}) // as net/http does after each request
			<-time.After(timeout / 100)
		}
		if most := answers/100 + 1; of.n > most {
			t.Errorf("%d deadlines were set for %d answers, want %d at most", of.n, answers, most)
		}
	})
}

// TestStreamsThatNobodyReadsEnd: a call over HTTP/2 ends whose client does not read its answer.
func TestStreamsThatNobodyReadsEnd(t *testing.T) {
	ended := make(chan error, 1)
	l, err := Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(BoundStreams(time.Second, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil { // more than any buffer holds
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- err
	})), slog.New(slog.DiscardHandler), 0)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
	server.Close()
	<-served
}
