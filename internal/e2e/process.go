package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopWithin is how long a process may take to end after SIGTERM.
const stopWithin = 10 * time.Second

// Process is one daemon, which can be killed, terminated, paused and started again with the same command. The output of
// all runs goes to one file.
type Process struct {
	Name    string
	In      *os.File // standard input of every run; nil: none
	command []string
	log     string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the present run has ended
}

// NewProcess returns a process that has not started yet. Its log is in dir.
func NewProcess(dir, name string, command ...string) *Process {
	return &Process{Name: name, command: command, log: filepath.Join(dir, name+".log")}
}

// Start starts the process. It is an error if it runs already.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("%s runs already", p.Name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	if p.In != nil {
		cmd.Stdin = p.In
	}
	// A process group of its own: Ctrl-C reaches the test alone, which then ends the process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		cmd.Wait()
		close(done)
	}()
	return nil
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill9 ends the process by SIGKILL.
func (p *Process) Kill9() error { return p.end(syscall.SIGKILL) }

// Terminate ends the process by SIGTERM. An exit status other than 0, or an end that takes too long, is an error.
func (p *Process) Terminate() error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	if err := p.end(syscall.SIGTERM); err != nil {
		return err
	}
	if cmd != nil && !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s after SIGTERM", p.Name, cmd.ProcessState)
	}
	return nil
}

// Pause stops the process by SIGSTOP until Resume.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a process that Pause has stopped.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	return p.cmd.Process.Signal(s)
}

// end sends a signal and waits for the end. It does nothing if the process does not run.
func (p *Process) end(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.cmd.Process.Kill()
		<-p.done
		p.cmd = nil
		return fmt.Errorf("%s did not end within %v of %v", p.Name, stopWithin, s)
	}
	p.cmd = nil
	return nil
}

// Tail returns the end of the log, for error messages.
func (p *Process) Tail() string {
	const most = 3000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Lines returns the lines of the log that contain a text.
func (p *Process) Lines(with string) (lines []string) {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

func startAll(processes []*Process) error {
	for _, p := range processes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// EndAll kills processes, whose contents are lost.
func EndAll(processes []*Process) {
	for _, p := range processes {
		_ = p.Kill9() // nothing that it holds is needed
	}
}

// Busy starts processes that only use processor time. stop ends them, also after an error.
func Busy(dir string, n int) (stop func() error, err error) {
	var all []*Process
	stop = func() (err error) {
		for _, p := range all {
			err = errors.Join(err, p.Kill9())
		}
		return err
	}
	for i := range n {
		p := NewProcess(dir, fmt.Sprintf("busy-%d", i), "sh", "-c", "while :; do :; done")
		if err := p.Start(); err != nil {
			return stop, err
		}
		all = append(all, p)
	}
	return stop, nil
}
