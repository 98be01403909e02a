// Package redistest starts real redis-server processes for tests.
package redistest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of the test's own; it ends with the test.
type Server struct {
	Addr string
	dir  string
	port string
	bus  string // the port of a cluster's servers among themselves
	args []string

	process *process // nil: it does not run
}

// startWithin bounds a server's start, and a condition's coming true. A Sentinel that was stopped for
// two seconds promotes nobody for another thirty.
const startWithin = 90 * time.Second

// Start runs a redis-server on a free loopback port, with more arguments if wanted.
// It saves only when asked to, into a directory of its own.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not in PATH: `make test` installs it (apt install redis-server, brew install redis)")
	}
	return start(t, func() *Server { return &Server{args: args} })
}

// start runs a server; with another port if another process took the one that was free.
func start(t testing.TB, newServer func() *Server) *Server {
	t.Helper()
	var log []byte
	for range portsTried {
		s := newServer()
		s.dir = t.TempDir()
		s.Addr, s.port = freePort(t)
		if s.run(t) {
			return s
		}
		log, _ = os.ReadFile(s.log())
	}
	t.Fatalf("redis-server ended at once, %d times:\n%s", portsTried, log)
	return nil
}

// portsTried bounds how often a port is taken that was free a moment before.
const portsTried = 5

// freePort is free now; who listens on it soon finds it so in all but one of some hundred
// times, on a machine on which much goes on.
func freePort(t testing.TB) (addr, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return l.Addr().String(), port
}

// Run starts the server again after Kill, on the same address and data.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	Until(t, "redis-server answers again", func() bool { return s.run(t) })
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// run reports whether the server came up; else it has ended, as it does if its port is in
// use.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	args := append([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--logfile", s.log()}, s.args...)
	if s.process = launch(t, s.log(), "Ready to accept connections", args...); s.process == nil {
		return false
	}
	Until(t, "redis-server answers", func() bool {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			return false
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		conn.Write([]byte("PING\r\n"))
		var b [64]byte
		n, _ := conn.Read(b[:])
		answer := string(b[:n])
		return strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH")
	})
	return true
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.kill()
	}
	s.process = nil
}

// process is a redis-server.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// launch runs a redis-server and returns when its log says that it listens; nil if it
// ended before. Its own log: another server may answer on its port.
func launch(t testing.TB, log, listens string, args ...string) *process {
	t.Helper()
	before, _ := os.ReadFile(log) // of an earlier life, if any
	p := &process{cmd: exec.Command("redis-server", args...), ended: make(chan struct{})}
	must(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	up := false
	Until(t, "redis-server listens", func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		text, _ := os.ReadFile(log)
		up = len(text) > len(before) && strings.Contains(string(text[len(before):]), listens)
		return up
	})
	if !up {
		return nil
	}
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// Client is a plain client that ends with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// Until polls a condition and fails the test if it does not come true in time.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v in vain until %s", startWithin, what)
		case <-tick.C:
		}
	}
}

// InStep waits until a replica has all that its primary had when this was called. A link that
// is up is not enough: the replica may still have to read what was written before.
func InStep(t testing.TB, replica, primary *redis.Client) {
	t.Helper()
	written := offset(t, replication(t, primary)["master_repl_offset"])
	Until(t, "the replica has all writes of its primary", func() bool {
		is := replication(t, replica)
		return is["role"] == "slave" && is["master_link_status"] == "up" && offset(t, is["slave_repl_offset"]) >= written
	})
}

// replication is what a server says of its replication, by INFO's names.
func replication(t testing.TB, c *redis.Client) map[string]string {
	t.Helper()
	text, err := c.Info(t.Context(), "replication").Result()
	must(t, err)
	says := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		says[name] = value
	}
	return says
}

// offset is a place in the stream of a primary's writes, in bytes.
func offset(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return n
}
