package regional

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// redisServer is a real redis-server of the test's own.
type redisServer struct {
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

// startRedis runs one, with more arguments if wanted.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not in PATH; `make test` installs it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisServer{t: t, dir: t.TempDir(), args: args, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

func (s *redisServer) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", append([]string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}, s.args...)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "redis-server answers", func() bool { return s.say("PING") == "+PONG" })
}

// say sends one inline command and returns the first line of the reply.
func (s *redisServer) say(command string) string {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "%s\r\n", command)
	reply := make([]byte, 512)
	n, _ := conn.Read(reply)
	line, _, _ := bytes.Cut(reply[:n], []byte("\r\n"))
	return string(line)
}

func (s *redisServer) signal(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
}

func (s *redisServer) kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGCONT)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}
