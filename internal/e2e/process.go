package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// stopWithin is how long a process may take to end after SIGTERM.
const stopWithin = 10 * time.Second

// Process is one daemon, which can be killed, stopped, paused and started again
// with the same command. Its output goes to a file, over all its lives.
type Process struct {
	Name    string
	In      *os.File // standard input of every life; nil: none
	command []string
	log     string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the present life has ended
}

// NewProcess is a process that has not started yet, with its log in dir.
func NewProcess(dir, name string, command ...string) *Process {
	return &Process{Name: name, command: command, log: filepath.Join(dir, name+".log")}
}

// Start begins a life; one under way is an error.
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
	// In a group of its own: Ctrl-C is for the test, which then cleans up.
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

// Running reports whether it was started and has not ended.
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

// Kill9 ends it without warning.
func (p *Process) Kill9() error { return p.end(syscall.SIGKILL) }

// Terminate ends it by SIGTERM and reports an exit that was not clean or took too
// long.
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

// Pause freezes it (SIGSTOP); Resume lets it go on.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	return p.cmd.Process.Signal(s)
}

// end signals and waits; without a life under way it does nothing.
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

// Tail is the end of the log, for error messages.
func (p *Process) Tail() string {
	const most = 3000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

func startAll(processes []*Process) error {
	for _, p := range processes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// EndAll kills processes; what they hold is lost.
func EndAll(processes []*Process) {
	for _, p := range processes {
		_ = p.Kill9() // whatever is left of it holds nothing that is needed
	}
}

// Busy starts processes that do nothing but take time; stop ends them, also after an error.
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
