// Package redistest starts real redis-server processes for tests.
package redistest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
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
	cmd  *exec.Cmd
}

// startWithin bounds a server's start, and a condition's coming true.
const startWithin = 20 * time.Second

// Start runs a redis-server on a free loopback port, with more arguments if wanted.
// It saves only when asked to, into a directory of its own.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not in PATH: `make test` installs it (apt install redis-server, brew install redis)")
	}
	s := &Server{dir: t.TempDir(), args: args}
	t.Cleanup(func() { s.Kill() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = l.Addr().String()
	_, s.port, _ = net.SplitHostPort(s.Addr)
	l.Close()
	s.Run(t)
	return s
}

// Run starts the server again after Kill, on the same address and data.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	args := append([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--logfile", filepath.Join(s.dir, "log")}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
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
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
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
