package regional

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/internal/testaddr"
)

// redisServer is a real redis-server of the test's own.
type redisServer struct {
	t    testing.TB
	dir  string
	host string // of its own, so that nobody else takes its port while it is down
	port string
	args []string
	cmd  *exec.Cmd
	// exited is closed when the process has ended.
	exited chan struct{}
}

// startRedis runs one, with more arguments if wanted.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not in PATH; `make test` installs it")
	}
	s := &redisServer{t: t, dir: t.TempDir(), args: args}
	t.Cleanup(s.kill)
	eventually(t, "a redis-server on a port of its own", func() bool { // where all share one host another program may be faster to take it
		var err error
		if s.host, s.port, err = net.SplitHostPort(testaddr.Ports(t, 1)[0]); err != nil {
			t.Fatal(err)
		}
		return s.tryStart()
	})
	return s
}

func (s *redisServer) url() string { return "redis://" + s.address() }

func (s *redisServer) address() string { return net.JoinHostPort(s.host, s.port) }

// start runs it on its port, again after kill.
func (s *redisServer) start() {
	s.t.Helper()
	eventually(s.t, "redis-server starts again", s.tryStart)
}

// tryStart is start; false if the server has ended, as it does where its port is taken.
func (s *redisServer) tryStart() bool {
	s.t.Helper()
	cmd, exited := exec.Command("redis-server", append([]string{"--port", s.port, "--bind", s.host,
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}, s.args...)...), make(chan struct{})
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	answers := false
	eventually(s.t, "redis-server answers", func() bool {
		select {
		case <-exited:
			return true
		default:
		}
		// By its own number: the server of another test may have the port.
		answers = strings.Contains(s.reply("INFO server"), fmt.Sprintf("process_id:%d\r\n", cmd.Process.Pid)) && s.say("PING") == "+PONG"
		return answers
	})
	return answers
}

// say sends one inline command and returns the first line of the reply.
func (s *redisServer) say(command string) string {
	line, _, _ := strings.Cut(s.reply(command), "\r\n")
	return line
}

// reply is what comes at once for an inline command.
func (s *redisServer) reply(command string) string {
	const patience = 30 * time.Second // on a busy machine
	conn, err := net.DialTimeout("tcp", s.address(), patience)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "%s\r\n", command)
	reply := make([]byte, 4096)
	n, _ := conn.Read(reply)
	return string(reply[:n])
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
	<-s.exited
	s.cmd = nil
}
